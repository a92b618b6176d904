// Lower bounds on small linear programs: least cost · x such that each row is reached and no variable is
// below 0. What is returned is a bound by weak duality, whatever rounding has done to the search. Any thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace strata {

struct LinearProgram {
  struct Column {
    double cost = 0;  ///< 0 or more
    double most = 0;  ///< some solution of least cost has no more of it; of one that costs something any
    std::vector<std::pair<std::size_t, double>> entries = {};  ///< by row; each row once
  };
  std::vector<double> least;  ///< by row: what the columns must add up to
  std::vector<Column> columns;
};

/// Weights of the rows, 0 or more, that make weighted_bound() largest but for rounding: the dual simplex
/// method (Lemke 1954) on a dense tableau. If no x reaches all rows, some weights.
std::vector<double> find_weights(const LinearProgram& program);

/// No solution costs less, whatever the weights (0 or more): the rows' weighted sum, and what columns that it
/// overcharges can take back at their most.
double weighted_bound(const LinearProgram& program, const std::vector<double>& weights);

}  // namespace strata
