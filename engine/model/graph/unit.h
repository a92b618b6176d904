// A unit: what is gathered and released together. Its parameters lie one after another in two flat
// parameters, one of what is trained and one of what is frozen. What it computes is the graph of its kind.
// Factors of its update lie in a flat array of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/graph/unit_graph.h"

namespace strata {

enum class Init : std::uint8_t {
  normal,
  residual_normal,
  zeros,
  ones,
  kaiming_uniform,  ///< in (-1, 1) / sqrt(columns), as torch's Linear (He et al. 2015 with a slope of
                    ///< sqrt(5))
  row_norms,        ///< of the weight that it stands beside (adapters.h), before training
  column_norms
};

enum class Flat : std::uint8_t { trained, frozen, factors };
inline constexpr std::array kFlats = {Flat::trained, Flat::frozen, Flat::factors};

struct Stretch {
  std::int64_t first = 0, count = 0;
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

/// One HF tensor: `rows` × `columns` (a vector has one row), row-major, inside one of a unit's flat
/// parameters.
struct TensorSpec {
  std::string hf_name;  ///< as in the safetensors file: the name that checkpoints use, whatever the layout
  std::vector<std::int64_t> hf_shape;  ///< one or two dimensions
  Flat flat = Flat::trained;
  std::int64_t offset = 0;  ///< elements from the start of that flat parameter
  std::int64_t elements = 0;
  Init init = Init::normal;
  bool is_adapter = false;   ///< it stands beside the model's own tensors (adapters.h)
  double adapter_scale = 0;  ///< of an adapter's A: the factor on what A and B add
  bool is_linear = false;    ///< the weight of a linear layer of a block, but no expert's and no router's
  std::size_t policy = 0;    ///< number of what it is updated by, if it is trained
  /// A row that starts as zeros, or -1.
  std::int64_t zero_row = -1;
  /// What a rank has of it that shares the unit's passes with others, row by row; empty: all. A vector has
  /// one row.
  std::vector<Stretch> rows = {}, columns = {};
  std::int64_t whole_offset = 0;  ///< on such a rank: in the unit of all ranks together
  /// The gradient that such a rank makes is a part of a sum over this many neighbouring ranks.
  std::int64_t summed_ranks = 1;
  /// Such a rank has all of it, as others do, and another saves it and counts it.
  bool is_copy = false;

  bool is_split() const { return !rows.empty(); }
  /// Elements of all ranks together.
  std::int64_t whole_elements() const {
    std::int64_t elements = 1;
    for (const std::int64_t size : hf_shape) elements *= size;
    return elements;
  }
};

struct Unit {
  std::string name;  ///< "embedding", "block.7", "head"
  /// Those of each flat parameter in the order of their offsets; gaps are padding and stay zero.
  std::vector<TensorSpec> tensors;
  /// Vectors that updates by some rules keep of some tensors (factors.h), and their elements. Each rank that
  /// has the unit has all of them.
  std::vector<TensorSpec> factors = {};
  std::int64_t factor_elements = 0;
  /// Elements of each flat parameter, padded to kFlatAlignment; 0 if no tensor is in it.
  std::int64_t elements = 0, frozen_elements = 0;
  std::int64_t parameters = 0;  ///< of both and of all ranks together, without padding
  std::size_t kind = 0;         ///< number of its graph
  /// Number of the unit whose parameters it uses beside its own, or -1. It adds to their gradient.
  std::int32_t shares = -1;
  /// Its gradient has values in few rows only, which are this long: those whose numbers a step's microbatches
  /// have in the data array `row_numbers`. 0: it is not so.
  std::int64_t sparse_row = 0;
  std::size_t row_numbers = 0;

  std::int64_t elements_of(Flat flat) const {
    switch (flat) {
      case Flat::trained:
        return elements;
      case Flat::frozen:
        return frozen_elements;
      case Flat::factors:
        return factor_elements;
    }
    return 0;
  }
  /// Those of the flat array are among them.
  const std::vector<TensorSpec>& tensors_of(Flat flat) const {
    return flat == Flat::factors ? factors : tensors;
  }
};

/// Flat parameters are padded to a multiple of this many elements, so that they divide by any sharding group
/// up to it.
constexpr std::int64_t kFlatAlignment = 256;
/// Matrices start at cache lines in fp32 and bf16 alike.
constexpr std::int64_t kTensorAlignment = 64;

}  // namespace strata
