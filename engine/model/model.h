// A model as a list of units, each with one flat parameter. Pure sizes and names: nothing here touches
// memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/architecture.h"

namespace strata {

enum class Init : std::uint8_t { normal, residual_normal, zeros, ones };

/// One HF tensor: `rows` × `columns` (a vector has one row), row-major, inside a unit's flat parameter.
struct TensorSpec {
  std::string hf_name;  ///< as in the safetensors file: the name that checkpoints use, whatever the layout
  std::vector<std::int64_t> hf_shape;  ///< one or two dimensions
  std::int64_t offset = 0;             ///< elements from the start of the flat parameter
  std::int64_t elements = 0;
  Init init = Init::normal;
  bool decay = false;  ///< weight decay applies: matrices, not norms and biases
};

enum class UnitKind : std::uint8_t { embedding, block, head };

/// What is gathered and released together.
struct Unit {
  UnitKind kind = UnitKind::block;
  std::string name;                 ///< "embedding", "block.7", "head"
  std::vector<TensorSpec> tensors;  ///< ascending offsets; gaps are padding and stay zero
  std::int64_t elements = 0;        ///< of the flat parameter, padded to kFlatAlignment
  std::int64_t parameters = 0;      ///< without padding
};

struct Model {
  Architecture architecture;
  std::vector<Unit> units;  ///< embedding, block.0 … block.L-1, head

  std::int64_t parameters() const;
  const Unit& embedding() const { return units.front(); }
  const Unit& head() const { return units.back(); }
};

/// Flat parameters are padded to a multiple of this many elements, so that they divide by any sharding group
/// up to it.
constexpr std::int64_t kFlatAlignment = 256;

/// Lays out the units. A tied head has no matrix of its own: its unit reads and adds to the embedding's first
/// tensor. Within a block, tensors that one product uses (q, k, v; gate, up; their biases) are adjacent,
/// without padding between.
Model build_model(const Architecture& architecture);

/// Model FLOPs of one forward pass per token at `sequence` (2 per multiply-add; causal attention counted
/// half): 2·(matrix parameters, head included even if tied) + 2·sequence·query_columns·layers. A backward
/// pass is twice that.
double forward_flops_per_token(const Model& model, std::int64_t sequence);

}  // namespace strata
