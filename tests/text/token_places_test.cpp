// Where tokens stand in a text, and which of them a stretch of it has: as the package tokenizers says it
// (make_spans.py).
#include "engine/text/token_places.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json_text.h"
#include "tests/support/source_folder.h"

namespace strata::text {
namespace {

std::filesystem::path folder_of_goldens() {
  return test::source_folder() / "tests/text/goldens";
}
Tokenizer tokenizer_of(const std::string& family) {
  return Tokenizer::read(folder_of_goldens() / (family + ".tokenizer.json"));
}

TEST(TokenPlaces, AreWhereTheOriginalHasThem) {
  const nlohmann::json families = read_json_object(folder_of_goldens() / "spans.json");
  for (const auto& [family, cases] : families.items()) {
    const Tokenizer tokenizer = tokenizer_of(family);
    for (const nlohmann::json& each : cases) {
      const std::string text = each.at("text");
      const std::vector<std::int32_t> ids = each.at("ids");
      const auto places = token_places(tokenizer, text, ids);
      ASSERT_TRUE(places) << family << ": " << text;
      for (const nlohmann::json& span : each.at("spans")) {
        EXPECT_EQ(tokens_of(*places, {span[0], span[1]}), (Range{span[2], span[3]}))
            << family << ", bytes " << span[0] << " to " << span[1] << " of " << text;
      }
    }
  }
}

TEST(TokenPlaces, AreUnknownWhereANormalizerChangesTheText) {
  const Tokenizer bert = tokenizer_of("bert");
  std::vector<std::int32_t> ids;
  bert.encode("Capitals", ids, AddSpecial::no);
  EXPECT_FALSE(token_places(bert, "Capitals", ids));
}

/// Qwen2 composes characters.
TEST(TokenPlaces, AreFoundByBeginningsWhereANormalizerChangesTheText) {
  const Tokenizer qwen2 = tokenizer_of("qwen2");
  const std::string before = "<|im_start|>assistant\n", said = "e\u0301te\u0301<|im_end|>",
                    text = before + said + "\n";
  std::vector<std::int32_t> ids, ids_before;
  qwen2.encode(text, ids, AddSpecial::no);
  EXPECT_FALSE(token_places(qwen2, text, ids));
  qwen2.encode(before, ids_before, AddSpecial::no);
  const auto found = tokens_by_beginnings(qwen2, text, ids, {before.size(), before.size() + said.size()});
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Range{ids_before.size(), ids.size() - 1}));
  // In the middle of a character that is composed, no token begins.
  EXPECT_FALSE(tokens_by_beginnings(qwen2, text, ids, {before.size() + 1, text.size()}));
}

TEST(TokenPlaces, OfNothingAreNone) {
  EXPECT_TRUE(token_places(tokenizer_of("gpt2"), "", {})->empty());
  EXPECT_EQ(tokens_of({}, {0, 0}), (Range{0, 0}));
}

}  // namespace
}  // namespace strata::text
