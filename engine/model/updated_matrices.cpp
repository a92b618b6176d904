#include "engine/model/updated_matrices.h"

#include <algorithm>
#include <numeric>

#include "engine/device/newton_schulz.h"

namespace strata {
namespace {

std::int64_t length_of(const std::vector<Stretch>& stretches) {
  std::int64_t length = 0;
  for (const Stretch& stretch : stretches) length += stretch.count;
  return length;
}

/// To the stretches of the rank with a number that is greater by `ranks`. If ranks divide an axis, they do so
/// evenly and in their order.
void move_by(std::int64_t ranks, std::int64_t all, std::vector<Stretch>& stretches) {
  if (length_of(stretches) == all) return;
  for (Stretch& stretch : stretches) stretch.first += ranks * stretch.count;
}

double flops_of(const UpdatedMatrix& matrix) {
  return orthogonalize_flops(matrix.rows, matrix.columns);
}

}  // namespace

std::int64_t UpdatedMatrix::own_elements() const {
  return is_whole() ? rows * columns : length_of(part.rows) * length_of(part.columns);
}

MatrixPart UpdatedMatrix::part_of(std::int64_t number, std::int64_t own) const {
  MatrixPart other = part;
  move_by(number - own, rows, other.rows);
  move_by(number - own, columns, other.columns);
  return other;
}

Bytes assembled_bytes(const UpdatedMatrix& matrix, DType precision) {
  constexpr Bytes kLine = 64;
  return matrix.is_whole() ? 0 : align_up(matrix.rows * matrix.columns * size_of(precision), kLine);
}

Bytes orthogonalization_bytes(const UpdatedMatrix& matrix, DType precision) {
  return assembled_bytes(matrix, precision) + orthogonalize_bytes(matrix.rows, matrix.columns);
}

std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit) {
  std::vector<UpdatedMatrix> matrices;
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat == Flat::trained && needs_matrices(model.policies[tensor.policy].rule)) {
      matrices.push_back({.offset = tensor.offset,
                          .rows = tensor.hf_shape[0],
                          .columns = tensor.hf_shape[1],
                          .part = {tensor.rows, tensor.columns}});
    }
  }
  return matrices;
}

std::vector<std::int64_t> orthogonalizing_ranks(const std::vector<UpdatedMatrix>& matrices,
                                                std::int64_t ranks) {
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t m) { return flops_of(matrices[m]); });
  std::vector<double> work(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> found(matrices.size());
  for (const std::size_t m : order) {
    const auto least = std::ranges::min_element(work);
    *least += flops_of(matrices[m]);
    found[m] = least - work.begin();
  }
  return found;
}

double orthogonalization_flops(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks) {
  std::vector<double> work(static_cast<std::size_t>(ranks));
  const std::vector<std::int64_t> of_rank = orthogonalizing_ranks(matrices, ranks);
  for (std::size_t m = 0; m < matrices.size(); ++m)
    work[static_cast<std::size_t>(of_rank[m])] += flops_of(matrices[m]);
  return std::ranges::max(work);
}

}  // namespace strata
