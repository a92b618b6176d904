// Element access in double precision and operand checks, shared by the reference kernels' sources.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/storage_type.h"
#include "engine/device/places.h"

namespace strata::reference {

inline double load(const Matrix& x, std::int64_t row, std::int64_t column) {
  return with_storage_type(x.dtype,
                           [&]<typename T>(T) { return static_cast<float>(x.row<const T>(row)[column]); });
}

/// Rounds to nearest even in the storage dtype.
inline void store(const Matrix& x, std::int64_t row, std::int64_t column, double value) {
  with_storage_type(x.dtype, [&]<typename T>(T) { x.row<T>(row)[column] = T(static_cast<float>(value)); });
}

inline void add_to(const Matrix& x, std::int64_t row, std::int64_t column, double value) {
  store(x, row, column, load(x, row, column) + value);
}

/// The caller broke the contract of kernels.h: a defect of ours, not a user's mistake.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("reference kernel: expected ") + what);
}

inline bool is_shape(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  return x && x.rows == rows && x.columns == columns && x.stride >= x.columns;
}

inline bool is_fp32(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  return is_shape(x, rows, columns) && x.dtype == DType::fp32;
}

inline bool is_fp32_or_absent(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  return !x || is_fp32(x, rows, columns);
}

inline void expect_places(const Places& places, std::int64_t rows) {
  expect(places.empty() || static_cast<std::int64_t>(places.size()) == rows, "a place for each token");
}

/// Same shape and dtype as `like`.
inline bool is_like(const Matrix& x, const Matrix& like) {
  return is_shape(x, like.rows, like.columns) && x.dtype == like.dtype;
}

inline bool is_like_or_absent(const Matrix& x, const Matrix& like) {
  return !x || is_like(x, like);
}

/// Calls body(row, column) for every element.
template <typename Body>
void for_each_element(const Matrix& x, const Body& body) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t column = 0; column < x.columns; ++column) body(row, column);
  }
}

}  // namespace strata::reference
