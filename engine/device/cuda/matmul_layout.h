// A row-major Product as cuBLASLt's column-major one. The memory of a row-major matrix is its transpose,
// column by column; so out = a·b is computed as outᵀ = bᵀ·aᵀ on the same memory: b becomes the left operand,
// a the right one. Needs no CUDA.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <string>

#include "engine/device/kernels.h"
#include "engine/device/product_calls.h"

namespace strata {

/// Largest power of two that divides the address, at most kAlignment. All buffers start at multiples of that,
/// so that a plan's placement of buffers never changes the choice of an algorithm, and with it the bits.
inline int known_alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(kAlignment);
  return static_cast<int>(address & -address);
}

/// out[rows, columns] = left·right (+ out, or addend) (+ bias), column-major, or the GELU of that. Equal
/// problems get the same algorithm.
struct ColumnMajorProduct {
  struct Operand {
    DType dtype = DType::fp32;
    bool transpose = false;    ///< stored as the transpose of what is multiplied
    std::int64_t leading = 0;  ///< elements from one stored column to the next
    int alignment = 0;         ///< of the address, in bytes
    // clang-tidy 14 takes the 0 that an order is compared with for a null pointer.
    auto operator<=>(const Operand&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand left, right, out;
  bool accumulate = false;
  /// The bias's address is aligned to this; 0: none. The bias has one element for each row, of out's dtype.
  int bias_alignment = 0;
  /// What is added and lies elsewhere than out; no alignment: nothing.
  Operand addend = {};
  /// Where the sum goes if out is its GELU; no alignment: out is the sum.
  Operand sum = {};
  /// left and right are codes of e4m3, each with a scale: bytes, with the depth contiguous in both.
  bool of_codes = false;

  /// What the product is added to, if it is to anything.
  const Operand& added_to() const { return addend.alignment > 0 ? addend : out; }
  auto operator<=>(const ColumnMajorProduct&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// If the product rounds, a and b stand where their codes are. REQUIRES: a bias has out's dtype.
inline ColumnMajorProduct column_major(const Product& product) {
  const bool of_codes = product.rounding == Rounding::e4m3;
  const Matrix& out = product.activated ? product.activated : product.out;
  const std::int64_t depth = product.transpose_a ? product.a.rows : product.a.columns;
  const auto operand = [](const Matrix& matrix, bool transpose) {
    return ColumnMajorProduct::Operand{matrix.dtype, transpose, matrix.stride, known_alignment(matrix.data)};
  };
  const auto factor = [&](const Matrix& matrix, bool transpose, bool is_left) {
    return of_codes ? ColumnMajorProduct::Operand{matrix.dtype, is_left, depth, known_alignment(matrix.data)}
                    : operand(matrix, transpose);
  };
  return {.rows = out.columns,
          .columns = out.rows,
          .depth = depth,
          .left = factor(product.b, product.transpose_b, true),
          .right = factor(product.a, product.transpose_a, false),
          .out = operand(out, false),
          .accumulate = product.accumulate,
          .bias_alignment = product.bias ? known_alignment(product.bias.data) : 0,
          .addend = product.addend ? operand(product.addend, false) : ColumnMajorProduct::Operand(),
          .sum = product.activated ? operand(product.out, false) : ColumnMajorProduct::Operand(),
          .of_codes = of_codes};
}

/// One line that says all of it: equal lines are equal problems.
inline std::string print(const ColumnMajorProduct& problem) {
  const auto text = [](const ColumnMajorProduct::Operand& operand) {
    const auto& [dtype, transpose, leading, alignment] = operand;
    return fmt::format("{}{} by {} at {}", name_of(dtype), transpose ? " transposed" : "", leading,
                       alignment);
  };
  const auto& [rows, columns, depth, left, right, out, accumulate, bias_alignment, addend, sum, of_codes] =
      problem;
  return fmt::format("{} x {} x {} of {} and {} {} {}, bias at {}, plus {}{}{}", rows, depth, columns,
                     text(left), text(right), accumulate ? "added to" : "to", text(out), bias_alignment,
                     text(addend), sum.alignment > 0 ? ", GELU of " + text(sum) : "",
                     of_codes ? ", in e4m3" : "");
}

/// For messages, in the words of Product: "a product of bf16 [3, 5] and [5, 17] (stored transposed) to fp32".
inline std::string describe(const ColumnMajorProduct& problem) {
  const auto stored = [](const ColumnMajorProduct::Operand& operand) {
    return operand.transpose ? " (stored transposed)" : "";
  };
  return fmt::format("a product of {} [{}, {}]{} and [{}, {}]{} to {}", name_of(problem.right.dtype),
                     problem.columns, problem.depth, stored(problem.right), problem.depth, problem.rows,
                     stored(problem.left), name_of(problem.out.dtype));
}

}  // namespace strata
