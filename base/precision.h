// What a run computes in: the type in which values are stored, and how products round what they multiply.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace strata {

/// What becomes of a product's operands before they are multiplied. e4m3: each is rounded to FP8, with a
/// Float8Scale of its own from its largest finite magnitude.
enum class Rounding : std::uint8_t { none, e4m3 };

struct Precision {
  DType storage = DType::bf16;
  Rounding products = Rounding::none;  ///< of the linear layers of blocks

  constexpr Precision() = default;
  /// A type alone is a precision.
  constexpr Precision(DType storage, Rounding products = Rounding::none)
      : storage(storage), products(products) {}
  friend constexpr bool operator==(const Precision&, const Precision&) = default;
};

inline constexpr Precision kFp8 = {DType::bf16, Rounding::e4m3};
inline constexpr std::array<Precision, 4> kPrecisions = {DType::fp32, DType::bf16, DType::fp16, kFp8};

/// REQUIRES: one of kPrecisions.
constexpr std::string_view name_of(const Precision& precision) {
  return precision.products == Rounding::e4m3 ? "fp8" : name_of(precision.storage);
}
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision& precision : kPrecisions) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

}  // namespace strata
