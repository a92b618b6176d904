// Comparing two folders of profiles: what they must have, and what of damaged ones is said.
#include "engine/tools/profile/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/tools/profile/profile_folder.h"
#include "tests/base/temporary_folder.h"
#include "tests/profile/support.h"

namespace strata {
namespace {

using test::Profiled;
using ::testing::HasSubstr;
using ::testing::Not;

class Comparison : public ::testing::Test {
 protected:
  Comparison() {
    write_profile_folder(folder_ / "a", "run.yaml", {of_.profile}, {});
    write_profile_folder(folder_ / "b", "run.yaml", {small_.profile}, {});
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(std::ifstream(folder_ / name / "summary.json"));
  }
  void write(const std::string& text) const { std::ofstream(folder_ / "b" / "summary.json") << text; }
  /// What is said of b after the change.
  std::string said_after(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json changed = summary("a");
    change(changed);
    write(changed.dump());
    return said();
  }
  std::string said() const {
    try {
      comparison_page(folder_ / "a", folder_ / "b");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  Profiled of_, small_{64 * KiB};
  test::TemporaryFolder folder_;
};

TEST_F(Comparison, HoldsBothSummaries) {
  const std::string page = comparison_page(folder_ / "a", folder_ / "b");
  const std::string opening = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(opening) + opening.size();
  const nlohmann::json data = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(data["summaries"][0], summary("a"));
  EXPECT_EQ(data["summaries"][1], summary("b"));
  EXPECT_EQ(data["folders"][1], (folder_ / "b").string());
}

TEST_F(Comparison, RefusesWhatIsNoProfileInOneSentence) {
  EXPECT_EQ(said(), "");
  EXPECT_THAT(said_after([](auto& json) { json["version"] = 2; }),
              HasSubstr("its version is 2, and this program reads 1"));
  EXPECT_THAT(said_after([](auto& json) { json["format"] = "x"; }),
              HasSubstr("it is no summary of a profile"));
  EXPECT_THAT(said_after([](auto& json) { json.erase("measured"); }), HasSubstr("measured is missing"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"].clear(); }), HasSubstr("it has no profile"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0] = 3; }), HasSubstr("seconds is missing"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["seconds"] = "1"; }),
              HasSubstr("seconds is no number"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["lanes"] = 1; }), HasSubstr("lanes is no map"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["lanes"]["cpu"]["waited_for"]["x"] = nullptr; }),
              HasSubstr("x is no number"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["traffic"]["h2d"] = -1; }),
              HasSubstr("h2d is no number"));
  EXPECT_THAT(
      said_after([](auto& json) { json["planned"][0]["memory"]["device"]["at_peak"][0]["name"] = 7; }),
      HasSubstr("name is no text"));
  EXPECT_THAT(said_after([](auto& json) {
                json["planned"][0]["memory"]["device"]["at_peak"][0]["kind"] = "x);background:url(//x)";
              }),
              HasSubstr("is no kind of buffer"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["memory"]["device"]["by_kind"]["x"] = 1; }),
              HasSubstr("x is no kind of buffer"));
  EXPECT_THAT(said_after([](auto& json) { json["planned"][0]["bound"] = "soon"; }),
              HasSubstr("seconds is missing"));
  EXPECT_THAT(said_after([](auto& json) { json = nlohmann::json::array(); }), Not(""));
  for (const char* text : {"", "{", "\xff\xfe", "[[[[", "{\"format\": \"strata profile\""}) {
    write(text);
    EXPECT_THAT(said(), HasSubstr("summary.json"));
  }
  std::filesystem::remove(folder_ / "b" / "summary.json");
  EXPECT_THAT(said(), HasSubstr("has no summary.json"));
}

TEST_F(Comparison, WritesNoNameAsMarkup) {
  EXPECT_EQ(said_after([](auto& json) {
              json["run"] = "</script><img src=x>";
              json["planned"][0]["memory"]["device"]["at_peak"][0]["name"] = "<img src=x>";
            }),
            "");
  EXPECT_THAT(comparison_page(folder_ / "a", folder_ / "b"), Not(HasSubstr("<img")));
}

}  // namespace
}  // namespace strata
