// Which of a unit's tensors must be whole when they are updated: all of such a tensor's gradient decides
// where each of its elements goes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model.h"
#include "optim/update_rule.h"

namespace strata {

/// What a rank has of a matrix, row-major: these columns of these rows.
struct MatrixPart {
  std::vector<Stretch> rows, columns;
};

/// A vector has one row.
struct UpdatedMatrix {
  UpdateRule rule = UpdateRule::muon;
  std::size_t policy = 0;
  bool is_vector = false;
  std::int64_t offset = 0;             ///< of what a rank has, in the unit's trained flat parameter
  std::int64_t factors = 0;            ///< where its factors begin among the unit's
  std::int64_t own_factors = 0;        ///< and their number
  std::int64_t rows = 0, columns = 0;  ///< of the whole matrix
  MatrixPart part = {};                ///< what this rank has; no stretches: all
  std::int64_t copies = 1;             ///< neighbouring ranks that have the same

  bool is_whole() const { return part.rows.empty(); }
  /// Elements that a rank has.
  std::int64_t own_elements() const;
  /// What the number-th of `ranks` that share it has, if this one is number `own`.
  MatrixPart part_of(std::int64_t number, std::int64_t own, std::int64_t ranks) const;
};

/// The workspace for one begins with the whole matrix, if ranks share it. What its rule wants follows.
Bytes workspace_bytes(const UpdatedMatrix& matrix, DType precision);
/// The whole matrix takes these bytes of it.
Bytes assembled_bytes(const UpdatedMatrix& matrix, DType precision);

/// In their order.
std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit);

/// Which of `ranks` finds the direction of each matrix, if they share them out: the longest first, each goes
/// to the rank with the least work.
std::vector<std::int64_t> directing_ranks(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks);
/// FLOPs of the rank with the most work.
double direction_flops(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks);

}  // namespace strata
