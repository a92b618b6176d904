// What config.json says of rotary positions, in each spelling.

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/model/architectures/rotary.h"
#include "tests/model/architecture_support.h"

namespace strata::test {
namespace {

using nlohmann::json;

TEST(Architecture, RopeIsReadInTheSpellingsOfBothTransformersVersions) {
  const json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  const RopeOptions expected{500000.0, RopeOptions::Llama3{8, 1, 4, 8192}};
  const Architecture before =
      parse({{"model_type", "llama"}, {"rope_theta", 500000.0}, {"rope_scaling", scaling}});
  EXPECT_EQ(before.rope, expected);
  json parameters = scaling;
  parameters["rope_theta"] = 500000;
  EXPECT_EQ(parse({{"model_type", "llama"}, {"rope_parameters", parameters}}).rope, expected);
  EXPECT_EQ(parse({{"model_type", "llama"}, {"rope_theta", 1.0}, {"rope_parameters", parameters}}).rope,
            expected);
}

TEST(Architecture, RopeScalingWinsOverRopeParametersAsInTransformers) {
  const Architecture a = parse({{"model_type", "llama"},
                                {"rope_scaling", {{"type", "default"}, {"rope_theta", 7.0}}},
                                {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 9.0}}}});
  EXPECT_EQ(a.rope.theta, 7.0);
  EXPECT_EQ(parse({{"model_type", "llama"},
                   {"rope_scaling", nullptr},
                   {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 9.0}}}})
                .rope.theta,
            9.0);
}

TEST(Architecture, Llama3RopeStartsFromTheModelsPositionsWhereItDoesNotSay) {
  const Architecture a =
      parse({{"model_type", "llama"},
             {"max_position_embeddings", 777},
             {"rope_scaling",
              {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}}});
  EXPECT_EQ(a.rope.llama3->original_max_positions, 777);
}

TEST(Architecture, OriginalPositionsBesideTheRopeSettingsWinOverThoseAmongThem) {
  const Architecture a = parse({{"model_type", "llama"},
                                {"original_max_position_embeddings", 16},
                                {"rope_parameters",
                                 {{"rope_type", "llama3"},
                                  {"factor", 8},
                                  {"low_freq_factor", 1},
                                  {"high_freq_factor", 4},
                                  {"original_max_position_embeddings", 8}}}});
  EXPECT_EQ(a.rope.llama3->original_max_positions, 16);
}

TEST(Architecture, LongRopeScalesByTheRatioOfPositionsUnlessTheFileSaysHowMuch) {
  const auto long_rope = [](const json& settings) {
    json parameters = {
        {"rope_type", "longrope"}, {"short_factor", {1.0, 1.25}}, {"long_factor", {1.5, 60.1}}};
    parameters.update(settings);
    return parse({{"model_type", "phi3"},
                  {"head_dim", 4},
                  {"max_position_embeddings", 131072},
                  {"rope_scaling", parameters}})
        .rope.long_rope;
  };
  EXPECT_DOUBLE_EQ(long_rope(json::object())->attention_factor, std::sqrt(1 + std::log(32) / std::log(4096)));
  EXPECT_EQ(long_rope(json::object())->original_max_positions, 4096);
  EXPECT_EQ(long_rope({{"original_max_position_embeddings", 8}}), long_rope(json::object()));
  EXPECT_DOUBLE_EQ(long_rope({{"factor", 8.0}})->attention_factor,
                   std::sqrt(1 + std::log(8) / std::log(4096)));
  EXPECT_EQ(long_rope({{"factor", 0.5}})->attention_factor, 1);
  EXPECT_EQ(long_rope({{"attention_factor", 1.25}})->attention_factor, 1.25);
}

/// The keys of Phi-4-mini's file beside the usual ones.
const json kPhi4Mini = {
    {"model_type", "phi3"},
    {"hidden_size", 32},
    {"num_attention_heads", 4},
    {"partial_rotary_factor", 0.75},
    {"full_attn_mod", 1},
    {"interpolate_factor", 1},
    {"lm_head_bias", false},
    {"mlp_bias", false},
    {"tie_word_embeddings", true},
    {"original_max_position_embeddings", 4096},
    {"max_position_embeddings", 131072},
    {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 1, 1}}, {"long_factor", {1, 1.5, 60}}}}};

TEST(Architecture, Phi4MiniRotatesAPartOfEachHead) {
  const Architecture a = parse(kPhi4Mini);
  EXPECT_EQ(rotated_columns({a.head_dimension, a.rope}), 6);
  EXPECT_EQ(a.rope.long_rope->long_factors, (std::vector<double>{1, 1.5, 60}));
  EXPECT_TRUE(a.tied_head);
  json other = kPhi4Mini;
  other["lm_head_bias"] = true;
  EXPECT_THROW(parse(other), ConfigError);
}

const Refusal kRopeRefusals[] = {
    {"RopeType",
     rope("llama", {{"rope_type", "yarm"}}),
     {"rope_parameters: rope_type is \"yarm\"", "\"yarn\"", "\"llama3\""}},
    {"YarnWithoutFactor", rope("llama", {{"rope_type", "yarn"}}), {"rope_parameters: factor is missing"}},
    {"TwoTypes",
     rope("llama", {{"rope_type", "default"}, {"type", "linear"}, {"factor", 2}}),
     {"type is \"linear\"", "rope_type, \"default\""}},
    {"OldRopeType",
     {{"model_type", "llama"}, {"rope_scaling", {{"type", "ntk"}, {"factor", 2}}}},
     {"rope_scaling: type is \"ntk\"", "\"default\""}},
    {"RopeFactor", rope("llama", {{"rope_type", "llama3"}}), {"rope_parameters: factor is missing"}},
    {"RopeOrder",
     rope("llama", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}),
     {"high_freq_factor is 1", "more than low_freq_factor"}},
    {"PartialRotary", rope("llama", {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor is 0.5"}},
    {"RopeByLayer",
     rope("qwen3", {{"full_attention", {{"rope_theta", 1}}}}),
     {"full_attention", "by layer type"}},
    {"Phi3Rope",
     rope("phi3", {{"rope_type", "yarn"}}),
     {"rope_type is \"yarn\"", "supported: \"default\", \"longrope\""}},
    {"Phi3FewFactors",
     rope("phi3", {{"rope_type", "longrope"}, {"short_factor", {1.0, 2.0}}}),
     {"short_factor is [1.0,2.0]", "a list of 48 positive numbers"}},
    {"Phi3NoFactors", rope("phi3", {{"rope_type", "longrope"}}), {"short_factor"}},
    {"Phi3Llama3",
     rope("phi3", {{"rope_type", "llama3"}}),
     {"rope_type is \"llama3\"", "supported: \"default\", \"longrope\""}},
    {"Phi3PartialRotary",
     rope("phi3", {{"rope_type", "default"}, {"partial_rotary_factor", 0.99}}),
     {"partial_rotary_factor is 0.99", "an even number of columns of each head's 96"}},
};

INSTANTIATE_TEST_SUITE_P(Rope, ArchitectureRefusal, ::testing::ValuesIn(kRopeRefusals), name_of_refusal);

}  // namespace
}  // namespace strata::test
