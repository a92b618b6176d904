#include "engine/plan/bound/linear_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace strata {
namespace {

constexpr double kTolerance = 1e-9;

/// Rows are slacks of the basis: slack − entries · x = −least. Costs stay 0 or more, and pivots make the
/// right sides so too.
class Tableau {
 public:
  explicit Tableau(const LinearProgram& program)
      : rows_(program.least.size()),
        width_(program.columns.size() + rows_ + 1),
        scale_(rows_, 0),
        cells_((rows_ + 1) * width_, 0) {
    for (const LinearProgram::Column& column : program.columns) {
      for (const auto& [row, entry] : column.entries) scale_[row] = std::max(scale_[row], std::abs(entry));
    }
    for (double& scale : scale_) scale = scale > 0 ? 1 / scale : 1;
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
      for (const auto& [row, entry] : program.columns[c].entries) cell(row, c) = -entry * scale_[row];
      // Without ties there is no circle of pivots; weighted_bound() asks for the true costs.
      const double apart = std::fmod(0.618 * static_cast<double>(c + 1), 1);
      cell(rows_, c) = program.columns[c].cost + (program.columns[c].cost > 0 ? 0 : 1e-9 * (1 + apart));
    }
    for (std::size_t row = 0; row < rows_; ++row) {
      cell(row, program.columns.size() + row) = 1;
      cell(row, width_ - 1) = -program.least[row] * scale_[row];
    }
  }

  void solve() {
    const std::size_t most_pivots = 200 + 40 * rows_;
    for (std::size_t pivots = 0; pivots < most_pivots; ++pivots) {
      const std::size_t row = row_to_leave();
      if (row == rows_) return;
      const std::size_t column = column_to_enter(row);
      if (column == width_) return;  // no solution
      pivot(row, column);
    }
  }

  std::vector<double> weights() const {
    std::vector<double> weights;
    for (std::size_t row = 0; row < rows_; ++row) {
      const double cost = cells_[rows_ * width_ + width_ - 1 - rows_ + row];
      weights.push_back(std::max(0.0, cost * scale_[row]));
    }
    return weights;
  }

 private:
  double& cell(std::size_t row, std::size_t column) { return cells_[row * width_ + column]; }

  std::size_t row_to_leave() {
    std::size_t leaving = rows_;
    double lowest = -kTolerance;
    for (std::size_t row = 0; row < rows_; ++row) {
      if (cell(row, width_ - 1) >= lowest) continue;
      lowest = cell(row, width_ - 1);
      leaving = row;
    }
    return leaving;
  }

  std::size_t column_to_enter(std::size_t row) {
    std::size_t entering = width_;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t column = 0; column + 1 < width_; ++column) {
      const double entry = cell(row, column);
      if (entry > -kTolerance) continue;
      const double ratio = cell(rows_, column) / -entry;
      if (ratio >= least) continue;
      least = ratio;
      entering = column;
    }
    return entering;
  }

  void pivot(std::size_t row, std::size_t column) {
    const std::span<double> pivoted = std::span(cells_).subspan(row * width_, width_);
    const double divisor = pivoted[column];
    for (double& value : pivoted) value /= divisor;
    for (std::size_t other = 0; other <= rows_; ++other) {
      const double factor = cell(other, column);
      if (other == row || factor == 0) continue;
      const std::span<double> changed = std::span(cells_).subspan(other * width_, width_);
      for (std::size_t c = 0; c < width_; ++c) changed[c] -= factor * pivoted[c];
    }
  }

  std::size_t rows_, width_;
  std::vector<double> scale_, cells_;
};

}  // namespace

std::vector<double> find_weights(const LinearProgram& program) {
  Tableau tableau(program);
  tableau.solve();
  std::vector<double> weights = tableau.weights();
  // A column that costs something may be taken in any number, so none is charged more than its cost.
  double overcharge = 1;
  for (const LinearProgram::Column& column : program.columns) {
    if (column.cost == 0) continue;
    double charge = 0;
    for (const auto& [row, entry] : column.entries) charge += weights[row] * entry;
    overcharge = std::max(overcharge, charge / column.cost);
  }
  for (double& weight : weights) weight /= overcharge;
  return weights;
}

double weighted_bound(const LinearProgram& program, const std::vector<double>& weights) {
  double bound = 0;
  for (std::size_t row = 0; row < weights.size(); ++row) bound += program.least[row] * weights[row];
  for (const LinearProgram::Column& column : program.columns) {
    double left = column.cost;
    for (const auto& [row, entry] : column.entries) left -= weights[row] * entry;
    bound += std::min(0.0, left) * column.most;
  }
  return bound;
}

}  // namespace strata
