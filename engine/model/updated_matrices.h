// Which of a unit's tensors are orthogonalized before they are updated.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace strata {

/// What a rank has of a matrix, row-major: these columns of these rows.
struct MatrixPart {
  std::vector<Stretch> rows, columns;
};

struct UpdatedMatrix {
  std::int64_t offset = 0;             ///< of what a rank has, in the unit's trained flat parameter
  std::int64_t rows = 0, columns = 0;  ///< of the whole matrix
  MatrixPart part = {};                ///< what this rank has; no stretches: all

  bool is_whole() const { return part.rows.empty(); }
  /// Elements that a rank has.
  std::int64_t own_elements() const;
  /// What the number-th of the ranks that share it has, if this one is number `own`.
  MatrixPart part_of(std::int64_t number, std::int64_t own) const;
};

/// The workspace for one begins with the whole matrix, if ranks share it. orthogonalize()'s follows.
Bytes orthogonalization_bytes(const UpdatedMatrix& matrix, DType precision);
/// The whole matrix takes these bytes of it.
Bytes assembled_bytes(const UpdatedMatrix& matrix, DType precision);

/// In their order.
std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit);

/// Which of `ranks` orthogonalizes each matrix, if they share them out: the longest first, each goes to the
/// rank with the least work.
std::vector<std::int64_t> orthogonalizing_ranks(const std::vector<UpdatedMatrix>& matrices,
                                                std::int64_t ranks);
/// FLOPs of the rank with the most work.
double orthogonalization_flops(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks);

}  // namespace strata
