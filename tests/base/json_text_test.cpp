#include "base/json_text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/base/expect_error.h"
#include "tests/base/temporary_folder.h"

namespace strata {
namespace {

using nlohmann::json;

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                    const JsonBudget& budget = {}) {
  test::expect_error<ConfigError>([&] { parse_json(text, "a.json", budget); }, parts);
}

// Invariant of failures (JsonText.*): No file crashes a reader. Reading a file costs little more than its own
// size. Fuzzing attacks every reader.
TEST(JsonText, IsParsed) {
  EXPECT_EQ(parse_json(R"({"a": [1, -2.5, "x\"]", null, true]})", "a.json"),
            json::parse(R"({"a": [1, -2.5, "x\"]", null, true]})"));
}

TEST(JsonText, ThatIsMalformedIsRefusedWithItsPosition) {
  expect_refused("{\n  \"a\": 1,\n  \"b\" 2\n}", {"a.json:3:7: this is not valid JSON: ", "expected ':'"});
  expect_refused("{\"a\": tru}", {"a.json:1:10: this is not valid JSON: invalid literal"});
  expect_refused("", {"a.json:1:1: this is not valid JSON: "});
  expect_refused("{\"a\": \"\xff\"}", {"a.json:1:8: this is not valid JSON: ", "UTF-8"});
  expect_refused(std::string("{\"a\": 1}\n\0{\"a\": 2}", 18),
                 {"a.json:2:1: this is not valid JSON: there is a zero byte"});
  expect_refused("{\"a\": 1e999}", {"a.json: ", "number"});
}

TEST(JsonText, SaysNothingOfALongText) {
  try {
    parse_json("{\"" + std::string(100'000, 'x') + "\" 1}", "a.json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

TEST(JsonText, DeeperThanItsBudgetIsRefusedBeforeItIsBuilt) {
  for (const std::string open : {"[", "{\"a\":"}) {
    EXPECT_NO_THROW(parse_json(repeated(open, 64) + "1" + repeated(open == "[" ? "]" : "}", 64), "a.json"));
    expect_refused(repeated(open, 100'000), {"a.json:1:", "nested more than 64 levels"});
  }
  expect_refused("{\"b\": 1,\n \"a\": " + repeated("[", 65), {"a.json:2:70: "});
  EXPECT_NO_THROW(parse_json("\"" + repeated("[", 100) + "\\\"" + repeated("[", 100) + "\"", "a.json"))
      << "brackets of a text";
  EXPECT_NO_THROW(parse_json("[" + repeated("[],", 100) + "1]", "a.json")) << "side by side";
}

TEST(JsonText, OfMoreValuesOrBytesThanItsBudgetIsRefused) {
  expect_refused("[" + repeated("1,", 100) + "1]", {"more than 100 values"}, {.values = 100});
  expect_refused("[" + repeated("[],", 100) + "1]", {"more than 100 values"}, {.values = 100});
  expect_refused("[1, 2]", {"6 bytes are more JSON than the 5 that are read"}, {.bytes = 5});
}

TEST(JsonText, OfAFileMustBeAnObject) {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& text) { std::ofstream(folder / "a.json") << text; };
  write("{\"a\": 1}");
  EXPECT_EQ(read_json_object(folder / "a.json"), json({{"a", 1}}));
  write("[1]");
  test::expect_error<ConfigError>([&] { read_json_object(folder / "a.json"); },
                                  {"a.json: ", "not a JSON object"});
  write("{\"a\":\n1");
  test::expect_error<ConfigError>([&] { read_json_object(folder / "a.json"); }, {"a.json:2:2: "});
}

TEST(JsonText, IsWrittenWhateverBytesANameHas) {
  EXPECT_EQ(json_text({{"path", "caf\xe9"}}), "{\"path\":\"caf\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace strata
