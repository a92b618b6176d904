// What nodes keep of the tokens that a model has seen: of an attention its keys and values. There is a matrix
// for each operand that is cached, in which each sequence has equally many rows. A plan of places in memory,
// and views of it. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "engine/device/matrix.h"

namespace strata {

struct Model;

class KeyValueCache {
 public:
  /// Room for `capacity` tokens of each of `sequences`. Throws std::logic_error if a unit has two nodes with
  /// cached operands.
  KeyValueCache(const Model& model, DType precision, std::int64_t sequences, std::int64_t capacity);

  Bytes bytes() const { return bytes_; }
  std::int64_t capacity() const { return capacity_; }
  /// `memory` has bytes().
  void put_in(std::byte* memory) { memory_ = memory; }

  /// What the unit's node keeps, in the order of Operator::cached_operands(): capacity() rows of each
  /// sequence, one sequence behind another.
  std::vector<Matrix> of_unit(std::size_t unit) const;

 private:
  struct Part {
    Bytes offset = 0;
    std::int64_t columns = 0;
  };

  DType precision_;
  std::int64_t sequences_, capacity_;
  std::vector<std::vector<Part>> units_;
  Bytes bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace strata
