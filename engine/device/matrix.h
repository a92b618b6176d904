// A view of a row-major matrix in a device's memory. Vectors are matrices of one row.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace strata {

/// Does not own. An empty view (`data == nullptr`) stands for "not given" if a kernel's operand is
/// optional.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next, ≥ columns

  Matrix() = default;
  Matrix(void* data, DType dtype, std::int64_t rows, std::int64_t columns)
      : Matrix(data, dtype, rows, columns, columns) {}
  Matrix(void* data, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data(data), dtype(dtype), rows(rows), columns(columns), stride(stride) {}

  explicit operator bool() const { return data != nullptr; }
  std::int64_t elements() const { return rows * columns; }
  bool contiguous() const { return stride == columns; }

  /// Typed pointer to the first element of `row`. REQUIRES: T is the C++ type of `dtype`.
  template <typename T>
  T* row(std::int64_t row) const {
    assert(sizeof(T) == static_cast<std::size_t>(size_of(dtype)));
    return static_cast<T*>(data) + row * stride;
  }
  /// Rows [first, first + count).
  Matrix row_slice(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * stride * size_of(dtype), dtype, count, columns, stride};
  }
  /// Columns [first, first + count); keeps the stride.
  Matrix column_slice(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * size_of(dtype), dtype, rows, count, stride};
  }
};

}  // namespace strata
