// Tensors of a unit's graph: matrices whose axes have names and whose sizes follow the microbatch, and views
// of their columns. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "engine/model/graph/axis.h"

namespace strata {

enum class TensorType : std::uint8_t {
  precision,  ///< the run's
  fp32,
  int32
};

using TensorId = std::int32_t;

struct Tensor {
  std::string name;
  TensorType type = TensorType::precision;
  Axis rows, columns;
  /// Workspace: wherever there is room. Otherwise elements from the region's start; of constants a number
  /// in the list of constants.
  Region region = Region::workspace;
  std::int64_t offset = 0;
  /// Too large to exist whole: operators that touch it work on some of its rows after others.
  bool in_chunks = false;
  /// In a region of data: which of equal parts of the array it is, if it has but its share of tokens.
  std::int64_t part = 0;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// Columns of a tensor, or nothing if an operand is not given.
struct TensorView {
  TensorId tensor = -1;
  std::int64_t first = 0;
  std::int64_t columns = 0;  ///< 0: all

  explicit operator bool() const { return tensor >= 0; }
  bool is_whole() const { return columns == 0; }
  friend bool operator==(const TensorView&, const TensorView&) = default;
};

}  // namespace strata
