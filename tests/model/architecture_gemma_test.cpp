// What config.json of gemma2 and gemma3 says.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/architecture_support.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST(Architecture, EveryQueryScaleOfGemmaIsWrittenAsTheNumberThatItWasReadFrom) {
  for (std::int64_t scalar = 1; scalar <= 4096; ++scalar) {
    const Architecture a = parse({{"model_type", "gemma3_text"}, {"query_pre_attn_scalar", scalar}});
    EXPECT_EQ(to_hf_config(a)["query_pre_attn_scalar"], scalar);
  }
}

TEST(Architecture, EveryOtherLayerOfGemma2SlidesAndItsCapsAreOnUnlessTheyAreNull) {
  const Architecture a = parse({{"model_type", "gemma2"}, {"num_hidden_layers", 3}});
  EXPECT_EQ(a.slides, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(a.window, 4096);
  EXPECT_EQ(a.rope, RopeOptions{});
  EXPECT_EQ(a.scores_cap, 50);
  EXPECT_EQ(a.logits_cap, 30);
  EXPECT_FALSE(a.qk_norm);
  EXPECT_EQ(a.padding_token, 0);
  const Architecture without = parse(
      {{"model_type", "gemma2"}, {"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(without.scores_cap, 0);
  EXPECT_EQ(without.logits_cap, 0);
  EXPECT_EQ(parse({{"model_type", "gemma3_text"}}).logits_cap, 0);
}

TEST(Architecture, EverySixthLayerOfGemma3SeesAllAndRotatesByAnotherTheta) {
  const Architecture a = parse({{"model_type", "gemma3_text"}, {"num_hidden_layers", 7}});
  EXPECT_EQ(a.slides, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(a.window, 4096);
  EXPECT_EQ(a.rope.theta, 1e6);
  EXPECT_EQ(a.sliding_rope->theta, 1e4);
  EXPECT_EQ(a.query_scale, 1.0 / 16);
  EXPECT_TRUE(a.tied_head);
}

TEST(Architecture, GemmasRopeScalingStandsOverItsRopeParameters) {
  const Architecture a = parse({{"model_type", "gemma3_text"},
                                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}},
                                {"rope_parameters",
                                 {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 50.0}}},
                                  {"sliding_attention", nullptr}}}});
  EXPECT_EQ(a.rope.linear_factor, 4);
  EXPECT_EQ(a.rope.theta, 50);
  EXPECT_EQ(a.sliding_rope, RopeOptions{});
}

/// The hub's gemma-2-9b says its window twice.
TEST(Architecture, Gemma2sWindowMayHaveTwoKeys) {
  EXPECT_EQ(parse({{"model_type", "gemma2"}, {"sliding_window", 4096}, {"sliding_window_size", 4096}}).window,
            4096);
}

/// Its class there reads these keys, and no rope_parameters.
TEST(Architecture, Gemma3sExportHasTheKeysOfTransformers4) {
  const json config = to_hf_config(parse({{"model_type", "gemma3_text"},
                                          {"num_hidden_layers", 8},
                                          {"sliding_window_pattern", 3},
                                          {"rope_theta", 5e5},
                                          {"rope_local_base_freq", 2e4},
                                          {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}}));
  EXPECT_EQ(config["rope_theta"], 5e5);
  EXPECT_EQ(config["rope_local_base_freq"], 2e4);
  EXPECT_EQ(config["rope_scaling"], (json{{"rope_type", "linear"}, {"factor", 4.0}}));
  EXPECT_EQ(config["sliding_window_pattern"], 3);
  EXPECT_EQ(config["layer_types"].size(), 8U);
}

const Refusal kGemmaRefusals[] = {
    {"GemmaHidden",
     {{"model_type", "gemma3_text"}, {"hidden_size", 100}, {"head_dim", 8}},
     {"hidden_size 100 is not a multiple of num_attention_heads 8"}},
    {"GemmaKeyValueHeads",
     {{"model_type", "gemma3_text"}, {"num_key_value_heads", nullptr}},
     {"num_key_value_heads is null", "integer from 1"}},
    {"GemmaRopeType",
     rope("gemma3_text", {{"full_attention", {{"rope_type", "longrope"}}}}),
     {"rope_parameters: full_attention: rope_type is \"longrope\"", "supported: \"default\", \"linear\""}},
    {"Gemma2OtherWindow",
     {{"model_type", "gemma2"}, {"sliding_window", 4096}, {"sliding_window_size", 2048}},
     {"sliding_window_size is 2048", "sliding_window, which counts, is 4096"}},
    {"GemmaOldScaling",
     {{"model_type", "gemma3_text"}, {"rope_scaling", {{"type", "linear"}, {"factor", 8}}}},
     {"rope_scaling: type is \"linear\"", "goes by rope_type"}},
    {"GemmaScalingOfNothing",
     {{"model_type", "gemma3_text"}, {"rope_scaling", {{"factor", 8}}}, {"rope_parameters", json::object()}},
     {"rope_scaling is {\"factor\":8}", "full_attention in rope_parameters"}},
    {"GemmaNoWindow",
     {{"model_type", "gemma3_text"}, {"sliding_window", nullptr}},
     {"sliding_window is null", "integer from 1"}},
    {"Bidirectional",
     {{"model_type", "gemma3_text"}, {"use_bidirectional_attention", true}},
     {"use_bidirectional_attention is true", "supported: false"}},
    {"SoftCap",
     {{"model_type", "gemma3_text"}, {"final_logit_softcapping", 0.0}},
     {"final_logit_softcapping is 0.0", "positive"}},
    {"SoftCapOnScores",
     {{"model_type", "gemma2"}, {"attn_logit_softcapping", -50.0}},
     {"attn_logit_softcapping is -50.0", "positive"}},
    {"Gemma2RopeByLayerType",
     rope("gemma2", {{"full_attention", {{"rope_type", "default"}}}}),
     {"full_attention", "not supported"}},
    {"QueryScalar",
     {{"model_type", "gemma3_text"}, {"query_pre_attn_scalar", 0}},
     {"query_pre_attn_scalar is 0", "integer from 1"}},
};

INSTANTIATE_TEST_SUITE_P(Gemma, ArchitectureRefusal, ::testing::ValuesIn(kGemmaRefusals), name_of_refusal);

}  // namespace
}  // namespace strata::test
