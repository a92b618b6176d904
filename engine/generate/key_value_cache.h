// Keys and values of the tokens that a model has seen: per block two matrices, in which each sequence has
// equally many rows. A plan of places in memory, and views of it. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/kernels.h"
#include "engine/graph/operators/attention.h"
#include "engine/graph/unit_graph.h"
#include "engine/model/model.h"

namespace strata {

class KeyValueCache {
 public:
  /// Room for `capacity` tokens of each of `sequences`.
  KeyValueCache(const Model& model, DType precision, std::int64_t sequences, std::int64_t capacity);

  Bytes bytes() const { return bytes_; }
  std::int64_t capacity() const { return capacity_; }
  /// `memory` has bytes().
  void put_in(std::byte* memory) { memory_ = memory; }

  /// Rows [first, first + rows) of one sequence, of a unit with attention.
  Matrix keys(std::size_t unit, std::int64_t sequence, std::int64_t first, std::int64_t rows) const {
    return of_unit(unit, 0).row_slice(sequence * capacity_ + first, rows);
  }
  Matrix values(std::size_t unit, std::int64_t sequence, std::int64_t first, std::int64_t rows) const {
    return of_unit(unit, 1).row_slice(sequence * capacity_ + first, rows);
  }
  /// Attention of a query of each sequence to what the unit has of it.
  CachedAttention attention(std::size_t unit, AttentionShape shape, std::span<const std::int32_t> lengths,
                            const Matrix& query, const Matrix& out) const;

 private:
  Matrix of_unit(std::size_t unit, int which) const;

  DType precision_;
  std::int64_t sequences_, capacity_;
  std::vector<std::int64_t> columns_;  ///< by unit, of keys; 0: it has no attention
  std::vector<Bytes> offsets_;         ///< by unit
  Bytes bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace strata
