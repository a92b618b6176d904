#include "engine/model/updated_matrices.h"

#include <algorithm>
#include <numeric>

#include "engine/device/direction.h"
#include "engine/device/newton_schulz.h"
#include "engine/model/factors.h"

namespace strata {
namespace {

std::int64_t length_of(const std::vector<Stretch>& stretches) {
  std::int64_t length = 0;
  for (const Stretch& stretch : stretches) length += stretch.count;
  return length;
}

/// Which of the parts of an axis, which are in the order of ranks.
struct PartNumbers {
  std::int64_t own = 0, wanted = 0, parts = 1;
};

/// Turns the own stretches of an axis of `all` into the wanted ones. If parts are not even, the last ones
/// have less.
void move(const PartNumbers& numbers, std::int64_t all, std::vector<Stretch>& stretches) {
  const std::int64_t length = length_of(stretches);
  if (length == all) return;
  if (length * numbers.parts == all) {
    for (Stretch& stretch : stretches) stretch.first += (numbers.wanted - numbers.own) * stretch.count;
  } else {
    const std::int64_t most = (all + numbers.parts - 1) / numbers.parts;
    const std::int64_t first = std::min(numbers.wanted * most, all);
    stretches = {{first, std::min(most, all - first)}};
  }
}

double flops_of(const UpdatedMatrix& matrix) {
  return orthogonalizes(matrix.rule) ? orthogonalize_flops(matrix.rows, matrix.columns) : 0;
}

}  // namespace

std::int64_t UpdatedMatrix::own_elements() const {
  return is_whole() ? rows * columns : length_of(part.rows) * length_of(part.columns);
}

MatrixPart UpdatedMatrix::part_of(std::int64_t number, std::int64_t own, std::int64_t ranks) const {
  if (is_whole()) return {};
  MatrixPart other = part;
  const PartNumbers numbers = {own / copies, number / copies, ranks / copies};
  move(numbers, rows, other.rows);
  move(numbers, columns, other.columns);
  return other;
}

Bytes assembled_bytes(const UpdatedMatrix& matrix, DType precision) {
  constexpr Bytes kLine = 64;
  return matrix.is_whole() ? 0 : align_up(matrix.rows * matrix.columns * size_of(precision), kLine);
}

Bytes workspace_bytes(const UpdatedMatrix& matrix, DType precision) {
  return assembled_bytes(matrix, precision) + direction_bytes(matrix.rule, matrix.rows, matrix.columns);
}

std::vector<UpdatedMatrix> updated_matrices(const Model& model, const Unit& unit) {
  std::vector<UpdatedMatrix> matrices;
  std::int64_t factors = 0;
  for (const TensorSpec& tensor : unit.tensors) {
    const UpdateRule rule = model.policies[tensor.policy].rule;
    if (tensor.flat != Flat::trained || !needs_whole_tensors(rule)) continue;
    matrices.push_back({.rule = rule,
                        .policy = tensor.policy,
                        .is_vector = tensor.hf_shape.size() == 1,
                        .offset = tensor.offset,
                        .factors = factors,
                        .rows = tensor.hf_shape.size() == 1 ? 1 : tensor.hf_shape[0],
                        .columns = tensor.hf_shape.back(),
                        .part = {tensor.rows, tensor.columns},
                        .copies = tensor.summed_ranks});
    for (const TensorSpec& factor : factors_of(tensor, rule)) matrices.back().own_factors += factor.elements;
    factors += matrices.back().own_factors;
  }
  return matrices;
}

std::vector<std::int64_t> directing_ranks(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks) {
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

double direction_flops(const std::vector<UpdatedMatrix>& matrices, std::int64_t ranks) {
  std::vector<double> work(static_cast<std::size_t>(ranks));
  const std::vector<std::int64_t> of_rank = directing_ranks(matrices, ranks);
  for (std::size_t m = 0; m < matrices.size(); ++m)
    work[static_cast<std::size_t>(of_rank[m])] += flops_of(matrices[m]);
  return std::ranges::max(work);
}

}  // namespace strata
