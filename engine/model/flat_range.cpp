#include "engine/model/flat_range.h"

#include <algorithm>

namespace strata {

std::vector<TensorPiece> pieces_in(const Unit& unit, FlatRange range) {
  std::vector<TensorPiece> pieces;
  for (const TensorSpec& tensor : unit.tensors_of(range.flat)) {
    if (tensor.flat != range.flat) continue;
    const std::int64_t first = std::max(range.first, tensor.offset);
    const std::int64_t last = std::min(range.end(), tensor.offset + tensor.elements);
    if (first < last)
      pieces.push_back({&tensor, first - tensor.offset, last - tensor.offset, first - range.first});
  }
  return pieces;
}

namespace {

/// Cuts a piece of a tensor if the unit has stretches of its rows.
class RunFinder {
 public:
  explicit RunFinder(const TensorPiece& piece) : piece_(piece) {}

  std::vector<TensorRun> find() {
    const TensorSpec& tensor = *piece_.tensor;
    if (!tensor.is_split()) return {{&tensor, piece_.first, piece_.last, piece_.at}};
    const std::int64_t row_length = tensor.hf_shape.back();
    for (const Stretch& rows : tensor.rows) {
      for (std::int64_t row = rows.first; row < rows.first + rows.count && at_ < piece_.last; ++row)
        for (const Stretch& columns : tensor.columns) add(row * row_length + columns.first, columns.count);
    }
    return std::move(runs_);
  }

 private:
  /// The next `count` elements of the unit's part, which are those of the whole from `first` on.
  void add(std::int64_t first, std::int64_t count) {
    const std::int64_t begin = std::max(piece_.first, at_), end = std::min(piece_.last, at_ + count);
    if (begin < end) {
      const std::int64_t from = first + begin - at_;
      if (!runs_.empty() && runs_.back().last == from) {
        runs_.back().last += end - begin;
      } else {
        runs_.push_back({piece_.tensor, from, from + end - begin, piece_.at + begin - piece_.first});
      }
    }
    at_ += count;
  }

  const TensorPiece& piece_;
  std::vector<TensorRun> runs_;
  std::int64_t at_ = 0;  ///< elements of the unit's part so far
};

}  // namespace

std::vector<TensorRun> runs_in(const Unit& unit, FlatRange range) {
  std::vector<TensorRun> runs;
  for (const TensorPiece& piece : pieces_in(unit, range)) {
    const std::vector<TensorRun> of_piece = RunFinder(piece).find();
    runs.insert(runs.end(), of_piece.begin(), of_piece.end());
  }
  return runs;
}

}  // namespace strata
