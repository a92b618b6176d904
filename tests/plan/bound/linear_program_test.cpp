#include "engine/plan/bound/linear_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace strata::test {
namespace {

double least_cost(const LinearProgram& program) {
  return weighted_bound(program, find_weights(program));
}

/// Rows c · x ≥ 1 in two variables of given costs, and x + y ≤ 10.
LinearProgram two_variables(std::mt19937& random) {
  std::uniform_real_distribution<double> entry(0.1, 2);
  LinearProgram program;
  program.least = {1, 1, 1, -10};
  for (int variable = 0; variable < 2; ++variable) {
    LinearProgram::Column column{.cost = entry(random), .most = 10};
    for (std::size_t row = 0; row < 3; ++row) column.entries.emplace_back(row, entry(random));
    column.entries.emplace_back(3, -1);
    program.columns.push_back(column);
  }
  return program;
}

double cost_at_best_corner(const LinearProgram& program) {
  const auto value = [&](std::size_t row, double x, double y) {
    return program.columns[0].entries[row].second * x + program.columns[1].entries[row].second * y;
  };
  double best = std::numeric_limits<double>::infinity();
  const auto consider = [&](double x, double y) {
    if (x < -1e-12 || y < -1e-12) return;
    for (std::size_t row = 0; row < 4; ++row)
      if (value(row, x, y) < program.least[row] - 1e-9) return;
    best = std::min(best, program.columns[0].cost * x + program.columns[1].cost * y);
  };
  for (std::size_t a = 0; a < 4; ++a) {
    const double ax = value(a, 1, 0), ay = value(a, 0, 1);
    consider(program.least[a] / ax, 0);
    consider(0, program.least[a] / ay);
    for (std::size_t b = 0; b < a; ++b) {
      const double bx = value(b, 1, 0), by = value(b, 0, 1), determinant = ax * by - ay * bx;
      consider((program.least[a] * by - ay * program.least[b]) / determinant,
               (ax * program.least[b] - bx * program.least[a]) / determinant);
    }
  }
  return best;
}

// Invariant (LinearPrograms.*): No plan beats its certificate.
TEST(LinearPrograms, CostWhatTheirBestCornerCosts) {
  std::mt19937 random(1);
  for (int number = 0; number < 500; ++number) {
    const LinearProgram program = two_variables(random);
    const double best = cost_at_best_corner(program);
    EXPECT_NEAR(least_cost(program), best, 1e-6 * best) << number;
  }
}

TEST(LinearPrograms, CostNoLessThanAnyWeightsSay) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> weight(0, 1);
  for (int number = 0; number < 500; ++number) {
    const LinearProgram program = two_variables(random);
    const double best = cost_at_best_corner(program);
    EXPECT_LE(weighted_bound(program, {weight(random), weight(random), weight(random), weight(random)}),
              best + 1e-9);
  }
}

}  // namespace
}  // namespace strata::test
