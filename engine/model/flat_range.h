// Stretches of a unit's flat parameters, and of all that has their shape: what one rank holds of it, saves or
// loads. They follow no tensor's borders: one may begin inside a tensor, or hold nothing but padding. Pure
// sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/graph/unit.h"

namespace strata {

struct Model;

/// Elements [first, first + count) of one of a unit's flat parameters. REQUIRES: within
/// unit.elements_of(flat).
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Flat flat = Flat::trained;

  std::int64_t end() const { return first + count; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

inline FlatRange whole(const Unit& unit, Flat flat = Flat::trained) {
  return {0, unit.elements_of(flat), flat};
}

/// Elements [first, last) of what a unit has of a tensor, row-major, which begin at element `at` of a range.
struct TensorPiece {
  const TensorSpec* tensor = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t at = 0;

  std::int64_t count() const { return last - first; }
};

/// What a range has of the unit's tensors, in their order; the rest of it is padding.
std::vector<TensorPiece> pieces_in(const Unit& unit, FlatRange range);

/// Elements [first, last) of a whole tensor, row-major, which stand at `at` in the range. A rank that has
/// stretches of a tensor's rows has several runs of it.
struct TensorRun {
  const TensorSpec* tensor = nullptr;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t at = 0;

  std::int64_t count() const { return last - first; }
};

/// In the order of the range's elements; neighbours are joined.
std::vector<TensorRun> runs_in(const Unit& unit, FlatRange range);

/// Reads elements [first, first + out.size()) of one of the model's whole tensors, row-major, whichever of
/// them a rank has.
using ReadTensor = std::function<void(const TensorSpec& tensor, std::int64_t first, std::span<float> out)>;

}  // namespace strata
