// config.json of models that anybody may have written: read as a model, or refused in a sentence.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/model/architectures/architecture.h"
#include "tests/model/tiny_model.h"
#include "tests/support/damaged_json.h"

namespace strata::test {
namespace {

using nlohmann::json;

/// What is read is written and read again as the same model.
void read_config(const json& config) {
  const Architecture read = parse_architecture(config, "config.json");
  EXPECT_EQ(parse_architecture(to_hf_config(read), "written"), read);
}

// Invariant of failures (DamagedConfig.*): Files that anybody may have written are read, or refused in a
// short sentence. This holds for config.json, adapter_config.json, tokenizer_config.json, the index of
// shards, manifests and headers of tensors, each damaged in many ways. STRATA_TEST_DAMAGED=40 tries 40 times
// as many.
TEST(DamagedConfig, OfEachFamilyIsReadOrRefusedInASentence) {
  std::uint32_t seed = 54;
  for (const TinyArchitecture& tiny : tiny_architectures()) {
    SCOPED_TRACE(tiny.name);
    expect_read_or_refused(to_hf_config(tiny.architecture), "config.json", seed++, 20, read_config);
  }
}

TEST(DamagedConfig, OfRotationsIsReadOrRefusedInASentence) {
  const json llama = {
      {"model_type", "llama"},         {"hidden_size", 64},           {"num_attention_heads", 4},
      {"num_key_value_heads", 2},      {"intermediate_size", 128},    {"num_hidden_layers", 2},
      {"max_position_embeddings", 64}, {"tie_word_embeddings", true}, {"vocab_size", 99}};
  json phi3 = llama;
  phi3["model_type"] = "phi3";
  phi3["original_max_position_embeddings"] = 32;
  const std::vector<std::pair<json, json>> rotations = {{llama,
                                                         {{"rope_type", "llama3"},
                                                          {"factor", 8.0},
                                                          {"low_freq_factor", 1.0},
                                                          {"high_freq_factor", 4.0},
                                                          {"original_max_position_embeddings", 32}}},
                                                        {llama,
                                                         {{"rope_type", "yarn"},
                                                          {"factor", 4.0},
                                                          {"original_max_position_embeddings", 16},
                                                          {"beta_fast", 32},
                                                          {"beta_slow", 1},
                                                          {"attention_factor", 1.5}}},
                                                        {llama, {{"rope_type", "dynamic"}, {"factor", 2.0}}},
                                                        {llama, {{"rope_type", "linear"}, {"factor", 2.0}}},
                                                        {phi3,
                                                         {{"type", "longrope"},
                                                          {"short_factor", std::vector<double>(8, 1.0)},
                                                          {"long_factor", std::vector<double>(8, 2.0)}}}};
  std::uint32_t seed = 154;
  for (const auto& [base, rotation] : rotations) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      json config = base;
      config[key] = rotation;
      expect_read_or_refused(config, "config.json", seed++, 20, read_config);
      expect_read_or_refused(rotation, "config.json", seed++, 20, [&](const json& damaged) {
        config[key] = damaged;
        read_config(config);
      });
    }
  }
}

}  // namespace
}  // namespace strata::test
