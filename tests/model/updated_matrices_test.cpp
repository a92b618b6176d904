// Matrices that ranks share and that are updated whole: what each rank has of them, and does for them.
#include "engine/model/updated_matrices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nth.h"
#include "engine/config/optimizer_section.h"
#include "engine/device/newton_schulz.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"

namespace strata {
namespace {

using ::testing::ElementsAre;

nlohmann::json config_of(const std::string& architecture) {
  if (architecture == "gpt2") {
    return {{"model_type", "gpt2"}, {"n_layer", 2},     {"n_embd", 32},
            {"n_head", 4},          {"n_positions", 8}, {"vocab_size", 64}};
  }
  nlohmann::json config = {{"model_type", architecture}, {"num_hidden_layers", 2},
                           {"hidden_size", 32},          {"num_attention_heads", 8},
                           {"num_key_value_heads", 4},   {"intermediate_size", 48},
                           {"vocab_size", 67},           {"pad_token_id", nullptr}};
  if (architecture == "qwen3_moe") {
    config["head_dim"] = 4;
    config["moe_intermediate_size"] = 24;
    config["num_experts"] = 4;
    config["num_experts_per_tok"] = 2;
  }
  return config;
}

Model model_with(const std::string& architecture, OptimizerType type) {
  OptimizerSection optimizer;
  optimizer.type = type;
  return build_model(parse_architecture(config_of(architecture), "test"), {.optimizer = optimizer});
}

bool are_equal(const MatrixPart& a, const MatrixPart& b) {
  return a.rows == b.rows && a.columns == b.columns;
}

TEST(UpdatedMatrices, EachRankKnowsWhatTheOthersHave) {
  const std::vector<std::pair<const char*, OptimizerType>> models = {
      {"llama", OptimizerType::muon},     {"qwen2", OptimizerType::muon},
      {"gpt2", OptimizerType::muon},      {"phi3", OptimizerType::muon},
      {"qwen3_moe", OptimizerType::muon}, {"qwen2", OptimizerType::adafactor},
      {"gpt2", OptimizerType::adafactor}, {"llama", OptimizerType::adafactor}};
  for (const auto& [architecture, type] : models) {
    const Model whole = model_with(architecture, type);
    // If there are eight ranks, two have each head of keys. phi3 has queries and keys in one.
    const bool has_copies =
        whole.architecture.kv_heads < whole.architecture.heads && std::string_view(architecture) != "phi3";
    for (const std::int64_t ranks : {2, 4, 8}) {
      if (ranks == 8 && !has_copies) continue;
      std::vector<Model> parts;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        parts.push_back(split_model(whole, tensor_split(ranks, rank)));
      std::int64_t shared = 0;
      for (std::int64_t own = 0; own < ranks; ++own) {
        for (std::int64_t other = 0; other < ranks; ++other) {
          for (std::size_t u = 0; u < whole.units.size(); ++u) {
            const auto mine = updated_matrices(nth(parts, own), nth(parts, own).units[u]),
                       theirs = updated_matrices(nth(parts, other), nth(parts, other).units[u]);
            ASSERT_EQ(mine.size(), theirs.size());
            for (std::size_t m = 0; m < mine.size(); ++m) {
              EXPECT_EQ(mine[m].offset, theirs[m].offset);
              EXPECT_TRUE(are_equal(mine[m].part_of(other, own, ranks), theirs[m].part))
                  << architecture << ", unit " << u << ", matrix " << m << " of rank " << other;
              shared += mine[m].is_whole() ? 0 : 1;
            }
          }
        }
      }
      EXPECT_GT(shared, 0) << architecture;
    }
  }
}

UpdatedMatrix matrix(std::int64_t rows, std::int64_t columns) {
  return {.rows = rows, .columns = columns};
}

/// Those of a Llama's block: attention's four, and three that are larger.
const std::vector<UpdatedMatrix> kBlock = {matrix(64, 64),  matrix(16, 64),  matrix(16, 64), matrix(64, 64),
                                           matrix(224, 64), matrix(224, 64), matrix(64, 224)};

TEST(UpdatedMatrices, GoToRanksByTheirWork) {
  EXPECT_THAT(directing_ranks(kBlock, 3), ElementsAre(0, 2, 2, 1, 0, 1, 2));
  EXPECT_THAT(directing_ranks(kBlock, 1), ElementsAre(0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(directing_ranks(kBlock, 8), ElementsAre(3, 5, 6, 4, 0, 1, 2)) << "one has none";
  EXPECT_THAT(directing_ranks({}, 2), ElementsAre());
}

TEST(UpdatedMatrices, TakeAsLongAsTheBusiestRank) {
  double all = 0;
  for (const UpdatedMatrix& each : kBlock) all += orthogonalize_flops(each.rows, each.columns);
  EXPECT_EQ(direction_flops(kBlock, 1), all);
  EXPECT_EQ(direction_flops(kBlock, 3), orthogonalize_flops(64, 64) + orthogonalize_flops(224, 64));
  EXPECT_EQ(direction_flops(kBlock, 8), orthogonalize_flops(64, 224));
  EXPECT_EQ(direction_flops({}, 2), 0);
}

}  // namespace
}  // namespace strata
