#include "engine/model/initialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/model.h"
#include "tests/support/initial_unit.h"

namespace strata {
namespace {

Model tiny_model() {
  return build_model(parse_architecture({{"model_type", "gpt2"},
                                         {"n_layer", 2},
                                         {"n_embd", 60},
                                         {"n_head", 3},
                                         {"vocab_size", 500},
                                         {"n_positions", 7}},
                                        "test"));
}

FlatRange range_of(std::size_t first, std::size_t count) {
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)};
}

std::vector<float> whole_unit(const Model& model, std::size_t index, std::uint64_t seed) {
  const Unit& unit = model.units[index];
  std::vector<float> flat(static_cast<std::size_t>(unit.elements), -1.0F);
  test::initialize_unit(model.architecture, unit, seed, whole(unit), flat);
  return flat;
}

std::vector<float> tensor_of(const std::vector<float>& flat, const TensorSpec& tensor) {
  return {flat.begin() + tensor.offset, flat.begin() + tensor.offset + tensor.elements};
}

double deviation(const std::vector<float>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / count - sum / count * sum / count);
}

TEST(Initialize, AnySplitOfAUnitGivesTheSameBits) {
  const Model model = tiny_model();
  const std::vector<float> whole = whole_unit(model, 1, 42);
  for (const std::size_t piece : {1U, 61U, 64U, 1000U, 100000U}) {
    std::vector<float> flat(whole.size(), -1.0F);
    for (std::size_t first = 0; first < flat.size(); first += piece) {
      const std::size_t count = std::min(piece, flat.size() - first);
      test::initialize_unit(model.architecture, model.units[1], 42, range_of(first, count),
                            std::span(flat).subspan(first, count));
    }
    EXPECT_EQ(flat, whole) << piece;
  }
}

TEST(Initialize, ATensorAloneGetsWhatItHasInItsUnit) {
  const Model model = tiny_model();
  const std::vector<float> whole = whole_unit(model, 1, 42);
  for (const TensorSpec& tensor : model.units[1].tensors) {
    std::vector<float> alone(static_cast<std::size_t>(tensor.elements));
    initialize_tensor(model.architecture, tensor, 42, 0, alone);
    EXPECT_EQ(alone, tensor_of(whole, tensor)) << tensor.hf_name;
  }
}

TEST(Initialize, PaddingIsZero) {
  const Model model = tiny_model();
  std::vector<float> flat = whole_unit(model, 1, 42);
  for (const TensorSpec& tensor : model.units[1].tensors) {
    std::fill_n(flat.begin() + tensor.offset, tensor.elements, 0.0F);
  }
  EXPECT_EQ(flat, std::vector<float>(flat.size(), 0.0F));
}

TEST(Initialize, MatricesHaveTheRangeOfTheConfigAndResidualOnesLess) {
  const Model model = tiny_model();
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const std::vector<float> flat = whole_unit(model, unit, 42);
    for (const TensorSpec& tensor : model.units[unit].tensors) {
      if (tensor.hf_shape.size() < 2 || tensor.elements < 3000) continue;
      const double expected = tensor.init == Init::residual_normal ? 0.02 / std::sqrt(2.0 * 2) : 0.02;
      EXPECT_NEAR(deviation(tensor_of(flat, tensor)), expected, 0.05 * expected) << tensor.hf_name;
    }
  }
}

TEST(Initialize, NormsAreOnesAndBiasesZeros) {
  const Model model = tiny_model();
  const std::vector<float> head = whole_unit(model, 3, 42);
  EXPECT_EQ(tensor_of(head, model.head().tensors[0]), std::vector<float>(60, 1.0F));
  EXPECT_EQ(tensor_of(head, model.head().tensors[1]), std::vector<float>(60, 0.0F));
}

TEST(Initialize, ThePaddingTokensRowIsZeroInAnySplit) {
  nlohmann::json config = {{"model_type", "llama"},    {"num_hidden_layers", 1}, {"hidden_size", 12},
                           {"num_attention_heads", 2}, {"vocab_size", 9},        {"intermediate_size", 8}};
  const Model without = build_model(parse_architecture(config, "test"));
  config["pad_token_id"] = 4;
  const Model with = build_model(parse_architecture(config, "test"));
  std::vector<float> expected = whole_unit(without, 0, 42);
  std::fill_n(expected.begin() + with.embedding().tensors.front().offset + 4 * 12, 12, 0.0F);
  EXPECT_EQ(whole_unit(with, 0, 42), expected);
  for (std::size_t first = 0; first < expected.size(); first += 5) {
    const std::size_t count = std::min<std::size_t>(5, expected.size() - first);
    std::vector<float> piece(count);
    test::initialize_unit(with.architecture, with.embedding(), 42, range_of(first, count), piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)))
        << first;
  }
}

/// GPT-2's matrices have a column for each output.
TEST(Initialize, MagnitudesAreNormsOfTheirWeightsInAnySplit) {
  AdapterSection dora;
  dora.type = AdapterType::dora;
  for (const nlohmann::json& config : {nlohmann::json{{"model_type", "gpt2"},
                                                      {"n_layer", 1},
                                                      {"n_embd", 12},
                                                      {"n_head", 2},
                                                      {"vocab_size", 9},
                                                      {"n_positions", 7}},
                                       nlohmann::json{{"model_type", "llama"},
                                                      {"num_hidden_layers", 1},
                                                      {"hidden_size", 12},
                                                      {"num_attention_heads", 2},
                                                      {"vocab_size", 9},
                                                      {"intermediate_size", 8}}}) {
    const Model model = build_model(parse_architecture(config, "test"), {.adapter = dora});
    const Unit& unit = model.units[1];
    std::vector<float> trained(static_cast<std::size_t>(unit.elements)), frozen;
    test::initialize_unit(model.architecture, unit, 42, whole(unit), trained);
    frozen.resize(static_cast<std::size_t>(unit.frozen_elements));
    test::initialize_unit(model.architecture, unit, 42, whole(unit, Flat::frozen), frozen);
    std::size_t found = 0;
    for (const AdaptedLayer& layer : adapted_layers(unit, model.graph_of(unit))) {
      const std::vector<float> weight = tensor_of(frozen, *layer.weight);
      const std::vector<float> magnitudes = tensor_of(trained, *layer.magnitude);
      const std::size_t rows = magnitudes.size(), columns = weight.size() / rows;
      const bool is_linear = layer.order == WeightOrder::linear;
      for (std::size_t row = 0; row < rows; ++row, ++found) {
        double square = 0;
        for (std::size_t i = 0; i < columns; ++i)
          square += std::pow(double{weight[is_linear ? row * columns + i : i * rows + row]}, 2);
        EXPECT_FLOAT_EQ(magnitudes[row], static_cast<float>(std::sqrt(square))) << layer.weight->hf_name;
      }
    }
    EXPECT_GT(found, 0U);
    std::vector<float> pieces;
    for (std::int64_t first = 0; first < unit.elements; first += 32) {
      std::vector<float> piece(32);
      test::initialize_unit(model.architecture, unit, 42, {first, 32}, piece);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, trained);
  }
}

TEST(Initialize, SeedsAndTensorsDiffer) {
  const Model model = tiny_model();
  EXPECT_NE(whole_unit(model, 1, 42), whole_unit(model, 1, 43));
  EXPECT_NE(whole_unit(model, 1, 42), whole_unit(model, 2, 42));
}

}  // namespace
}  // namespace strata
