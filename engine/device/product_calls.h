// Calls of matrix products, and of sums and factors of their rows and columns: kernel_call.h says what calls
// have in common.
#pragma once

#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/device/kernel_call.h"

namespace strata {

/// out[m,n] = op(a)[m,k] · op(b)[k,n] (+ bias) (+ out if accumulate, or addend). a, b: one dtype, bf16 if
/// they are rounded; out: that dtype or fp32. If `activated` is given, nothing is added but a bias, and it is
/// activation(out), of what is in out or of that before it was rounded to out's dtype, as the device prefers.
struct Product {
  Matrix a;
  bool transpose_a = false;  ///< `a` is stored as [k,m]
  Matrix b;
  bool transpose_b = false;  ///< `b` is stored as [n,k]
  Matrix out;
  bool accumulate = false;
  Matrix bias = {};    ///< optional [1,n], dtype of a
  Matrix addend = {};  ///< optional [m,n], dtype of out, elsewhere than out, which is not accumulated then
  Rounding rounding = Rounding::none;  ///< of a and b, each with the scale of all that is here of it
  Matrix activated = {};               ///< optional, like out, elsewhere
  Activation activation = Activation::gelu_tanh;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, out, bias, addend, activated);
  }
};

/// gradient[1,n] (fp32) += sum over rows of x[m,n].
struct ColumnSum {
  Matrix x, gradient;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, gradient);
  }
};

/// sums[1,n] (fp32) += factors · sum over rows of a · b, of a column each.
struct ColumnDots {
  Matrix a, b;          ///< [rows, columns]; may be one
  Matrix factors = {};  ///< optional fp32 [1, columns]; none: 1
  Matrix sums;          ///< fp32 [1, columns]

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, factors, sums);
  }
};

/// out = x · factors (+ bias), of a column each, times a factor of the row.
struct ColumnScale {
  Matrix x;
  Matrix factors = {};      ///< optional fp32 [1, columns]; none: 1
  Matrix bias = {};         ///< optional [1, columns], dtype of x
  Matrix row_factors = {};  ///< optional fp32 [1, rows]; none: 1
  Matrix out;               ///< like x; may be x

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, factors, bias, row_factors, out);
  }
};

/// By what DoRA (Liu et al. 2024) multiplies the outputs of a weight whose rows it gives magnitudes of their
/// own: factors = magnitudes · reciprocal_norms, reciprocal_norms = 1 / sqrt(squares + dots).
struct MagnitudeFactors {
  Matrix squares, dots;     ///< fp32 [1, outputs]: a row's sum of squares without its update, and the rest
  Matrix magnitudes;        ///< [1, outputs]
  Matrix reciprocal_norms;  ///< fp32 [1, outputs], written
  Matrix factors;           ///< fp32 [1, outputs], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, squares, dots, magnitudes, reciprocal_norms, factors);
  }
};

/// out[0, row] = sum over columns of a · b (· factor), of a row each.
struct RowDots {
  Matrix a, b;               ///< [rows, columns]; may be one
  Matrix weight = {};        ///< optional [1, columns], dtype of a or fp32: the factor
  bool unit_offset = false;  ///< it is 1 + weight
  Matrix out;                ///< fp32 [1, rows], written

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, weight, out);
  }
};

}  // namespace strata
