// Added tokens that take the blanks beside them, and are blanks: the ids are those of tokenizers 0.23.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/config/choices.h"
#include "engine/input/text/tokenizer.h"

namespace strata::text {
namespace {

using nlohmann::json;

struct Strips {
  bool left = false, right = false;
};

/// The ids by a tokenizer whose token 3 is "<a>" and takes the whitespace behind it. Its token 4 is a tab; x
/// is 0, y 1, and a blank 2.
std::vector<std::int32_t> ids_of(Strips tab, const std::string& text) {
  const auto token = [](const char* content, int id, Strips strips) {
    return json{{"id", id},         {"content", content},    {"single_word", false},  {"normalized", true},
                {"special", false}, {"lstrip", strips.left}, {"rstrip", strips.right}};
  };
  const json file = {
      {"version", "1.0"},
      {"added_tokens", {token("<a>", 3, {.right = true}), token("\t", 4, tab)}},
      {"model", {{"type", "BPE"}, {"vocab", {{"x", 0}, {"y", 1}, {" ", 2}}}, {"merges", json::array()}}}};
  std::vector<std::int32_t> ids;
  Tokenizer::parse(file.dump(), "t.json").encode(text, ids, AddSpecial::no);
  return ids;
}

using Ids = std::vector<std::int32_t>;

TEST(AddedTokensOfBlanks, AreNoneWhereTheTokenBeforeHasTakenThem) {
  const Strips left{.left = true}, both{.left = true, .right = true};
  EXPECT_EQ(ids_of(left, "x<a>\ty"), (Ids{0, 3, 1}));
  EXPECT_EQ(ids_of(both, "x<a>\ty"), (Ids{0, 3, 1}));
  EXPECT_EQ(ids_of(both, "x<a>\t\ty"), (Ids{0, 3, 1}));
  EXPECT_EQ(ids_of(left, "x\t\ty"), (Ids{0, 4, 4, 1}));
  EXPECT_EQ(ids_of(left, "x \t \ty"), (Ids{0, 4, 4, 1}));
  EXPECT_EQ(ids_of(both, "x \t \t \t y"), (Ids{0, 4, 1}));
  // Here the original ends with "AddedVocabulary bad split".
  EXPECT_EQ(ids_of(left, "x<a>\t\ty"), (Ids{0, 3, 1}));
}

TEST(AddedTokensOfBlanks, AreThereOnceMoreIfTheyTakeNothingBeforeThem) {
  EXPECT_EQ(ids_of({}, "x<a>\ty"), (Ids{0, 3, 4, 1}));
  EXPECT_EQ(ids_of({}, "x<a>\t\ty"), (Ids{0, 3, 4, 4, 1}));
  EXPECT_EQ(ids_of({}, "x<a>\t \ty"), (Ids{0, 3, 4, 2, 4, 1}));
  EXPECT_EQ(ids_of({.right = true}, "x<a>\t\ty"), (Ids{0, 3, 4, 4, 1}));
  EXPECT_EQ(ids_of({.right = true}, "x\t\t\ty"), (Ids{0, 4, 4, 4, 1}));
}

}  // namespace
}  // namespace strata::text
