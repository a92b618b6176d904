// Patterns of ranks and alphas match the layers that they match in PEFT:
// tests/parity/make_adapter_patterns.py makes adapter_patterns.json.
#include "engine/model/adapter_patterns.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "tests/base/expect_error.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

// Invariant (AdapterPatterns.*): Adapters are those of PEFT and nothing else is trained.
TEST(AdapterPatterns, MatchWhatTheyMatchInPeft) {
  const auto goldens =
      nlohmann::json::parse(std::ifstream(test::source_folder() / "tests/model/adapter_patterns.json"));
  for (const nlohmann::json& golden : goldens["cases"]) {
    const AdapterSection adapter = {.rank = 1, .rank_pattern = {{golden["pattern"], 2}}, .path = ""};
    AdapterPatterns patterns(adapter, "");
    const auto matched = golden["matches"].get<std::set<std::string>>();
    for (const std::string name : goldens["names"]) {
      const bool matches = matched.contains(name);
      EXPECT_EQ(patterns.of(name).rank, matches ? 2 : 1) << golden["pattern"] << " and " << name;
    }
  }
}

TEST(AdapterPatterns, GiveTheValueOfTheFirstThatMatches) {
  const AdapterSection adapter = {.rank = 4,
                                  .alpha = 8,
                                  .rank_pattern = {{"q_proj", 3}, {".*attn.*", 2}, {"k_proj", 9}},
                                  .alpha_pattern = {{"1.q_proj", 5}},
                                  .path = ""};
  AdapterPatterns patterns(adapter, "adapter.");
  EXPECT_EQ(patterns.of("layers.1.attn.q_proj").rank, 3);
  EXPECT_EQ(patterns.of("layers.1.attn.k_proj").rank, 2);
  EXPECT_EQ(patterns.of("layers.1.mlp.up_proj").rank, 4);
  EXPECT_EQ(patterns.of("layers.1.q_proj").alpha, 5);
  EXPECT_EQ(patterns.of("layers.21.q_proj").alpha, 8);
  test::expect_error<ConfigError>([&] { patterns.check(); }, {"adapter.rank_pattern: 'k_proj' is the first"});
  EXPECT_EQ(adapter_scale(AdapterType::lora, {.rank = 4, .alpha = 6}), 1.5);
  EXPECT_EQ(adapter_scale(AdapterType::rslora, {.rank = 4, .alpha = 6}), 3);
}

TEST(AdapterPatterns, ThatAreNoneAreRefused) {
  const auto of = [](const std::string& pattern) {
    const AdapterSection adapter = {.alpha_pattern = {{pattern, 2}}, .path = ""};
    AdapterPatterns(adapter, "adapter.").of(std::string(60, 'a'));
  };
  for (const std::string pattern : {"(", "a)|(b", "[", "*"})
    test::expect_error<ConfigError>([&] { of(pattern); },
                                    {"adapter.alpha_pattern: '" + pattern + "' is no regular expression"});
  test::expect_error<ConfigError>([&] { of("(a*)*(a*)*(a*)*(a*)*x\\1"); },
                                  {"takes too long for the name aaa"});
}

}  // namespace
}  // namespace strata
