// The vectors that updates by some rules keep of tensors, on a rank that has all of them and on ranks that
// share them.
#include "engine/model/factors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/nth.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/model/split_model.h"
#include "engine/model/updated_matrices.h"
#include "tests/support/rule_in_run_file.h"

namespace strata {
namespace {

Model model_with(UpdateRule rule) {
  const nlohmann::json config = {
      {"model_type", "qwen2"},    {"num_hidden_layers", 2},  {"hidden_size", 32}, {"num_attention_heads", 8},
      {"num_key_value_heads", 4}, {"intermediate_size", 48}, {"vocab_size", 67}};
  OptimizerSection optimizer;
  test::set_rule(optimizer, rule);
  return build_model(parse_architecture(config, "test"), {.optimizer = optimizer});
}

const TensorSpec* factor_named(const Unit& unit, const std::string& name) {
  const auto found = std::ranges::find(unit.factors, name, &TensorSpec::hf_name);
  return found == unit.factors.end() ? nullptr : &*found;
}

TEST(Factors, AreThoseOfTheRule) {
  const std::string layer = "model.layers.0.";
  for (const UpdateRule rule : kUpdateRules) {
    const Model model = model_with(rule);
    const Unit& block = model.units[1];
    EXPECT_EQ(keeps_factors(model.rules()), keeps_factors(rule)) << name_of(rule);
    EXPECT_EQ(!block.factors.empty(), keeps_factors(rule)) << name_of(rule);
    EXPECT_EQ(block.elements_of(Flat::factors), block.factor_elements);
  }
  const Unit block = model_with(UpdateRule::adafactor).units[1];
  EXPECT_EQ(factor_named(block, layer + "mlp.up_proj.weight.exp_avg_sq_row")->elements, 48);
  EXPECT_EQ(factor_named(block, layer + "mlp.up_proj.weight.exp_avg_sq_col")->elements, 32);
  EXPECT_EQ(factor_named(block, layer + "self_attn.k_proj.bias.exp_avg_sq")->elements, 16);
  const Unit of_normuon = model_with(UpdateRule::normuon).units[1];
  EXPECT_EQ(factor_named(of_normuon, layer + "mlp.up_proj.weight.second_momentum_buffer")->elements, 48);
  EXPECT_EQ(of_normuon.factors.size(), 7U) << "AdamW updates vectors";
  const Unit of_rows = model_with(UpdateRule::adagrad_rowwise).units[1];
  EXPECT_EQ(factor_named(of_rows, layer + "mlp.down_proj.weight.sum")->elements, 32);
  EXPECT_EQ(factor_named(of_rows, layer + "input_layernorm.weight.sum")->elements, 32);
}

TEST(Factors, LieOneBehindTheOtherInTheOrderOfTensorsThatAreUpdatedWhole) {
  for (const UpdateRule rule : {UpdateRule::adafactor, UpdateRule::normuon, UpdateRule::adagrad_rowwise}) {
    const Model model = model_with(rule);
    for (const Unit& unit : model.units) {
      std::int64_t end = 0;
      for (const TensorSpec& factor : unit.factors) {
        EXPECT_EQ(factor.offset, end);
        EXPECT_EQ(factor.flat, Flat::factors);
        end += factor.elements;
      }
      EXPECT_EQ(end, unit.factor_elements);
      end = 0;
      for (const UpdatedMatrix& matrix : updated_matrices(model, unit)) {
        EXPECT_EQ(matrix.factors, end);
        end += matrix.own_factors;
      }
      EXPECT_EQ(end, unit.factor_elements);
    }
  }
}

TEST(Factors, AreWholeOnEachRankThatSharesTensorsAndOneOfThemSavesThem) {
  const Model whole = model_with(UpdateRule::adafactor);
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Model part = split_model(whole, tensor_split(ranks, rank));
      for (std::size_t u = 0; u < whole.units.size(); ++u) {
        EXPECT_EQ(part.units[u].factor_elements, whole.units[u].factor_elements);
        for (const TensorSpec& factor : part.units[u].factors) {
          EXPECT_NE(factor_named(whole.units[u], factor.hf_name), nullptr) << factor.hf_name;
          EXPECT_EQ(factor.is_copy, rank > 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
