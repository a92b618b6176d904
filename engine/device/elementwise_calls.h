// Calls that work on each element by itself.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/kernel_call.h"

namespace strata {

/// out = a + b, elementwise. out may be a or b.
struct Addition {
  Matrix a, b, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, a, b, out);
  }
};

/// out = factor · x, elementwise. out may be x.
struct Scale {
  Matrix x, out;
  float factor;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// out = x_factor · x + sums_factor · sums, rounded once. out may be x.
struct Blend {
  Matrix x;     ///< [rows, columns], as out
  Matrix sums;  ///< fp32 [rows, columns]
  float x_factor = 1, sums_factor = 1;
  Matrix out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, sums, out);
  }
};

/// out = x / max(norm, least), where norm = sqrt(*squares) is rounded to x's dtype, as torch rounds norms.
/// out may be x.
struct DivideByNorm {
  Matrix x;                         ///< [rows, columns], as out
  const double* squares = nullptr;  ///< in the device's memory
  float least = 0;
  Matrix out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, single(squares), out);
  }
};

/// out = x / (1 - probability) where it is kept, 0 where it is dropped (Srivastava et al. 2014): what
/// is_kept() in base/dropout.h says of the row's key, the site and the column.
struct Dropout {
  Matrix x;
  std::span<const std::int32_t> keys;  ///< [rows]; where it is kWithoutDropout, out = x
  std::uint32_t site = 0;              ///< which dropout of the model it is
  std::int64_t first_column = 0;       ///< x's first column in the whole matrix, whose columns x shares out
  float probability = 0;               ///< of being dropped, in [0, 1)
  Matrix out;                          ///< like x; may be x

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, keys, out);
  }
};

/// out = x in out's dtype (round to nearest even).
struct Cast {
  Matrix x, out;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x, out);
  }
};

/// x = 0.
struct Zero {
  Matrix x;

  template <typename Visit>
  void operands(const Visit& visit) const {
    visit_each(visit, x);
  }
};

}  // namespace strata
