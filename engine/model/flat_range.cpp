#include "engine/model/flat_range.h"

#include <algorithm>

namespace strata {

std::vector<TensorPiece> pieces_in(const Unit& unit, FlatRange range) {
  std::vector<TensorPiece> pieces;
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat != range.flat) continue;
    const std::int64_t first = std::max(range.first, tensor.offset);
    const std::int64_t last = std::min(range.end(), tensor.offset + tensor.elements);
    if (first < last)
      pieces.push_back({&tensor, first - tensor.offset, last - tensor.offset, first - range.first});
  }
  return pieces;
}

}  // namespace strata
