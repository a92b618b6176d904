// Numbers of bf16 as codes of e4m3 beside one scale, and back, in vectors: with the bits of base/float8.h on
// every instruction set.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/float8.h"

namespace strata {

/// The largest finite magnitude of values that threads look through, each some of them, on its own: a maximum
/// has no order.
class LargestMagnitude {
 public:
  void raise(std::span<const bfloat16> values);
  /// That of all values so far.
  Float8Scale scale() const;

 private:
  std::atomic<std::int16_t> bits_ = 0;
};

/// codes = values · factor, rounded, with the scale of the largest of them; returns its factors. In the arena
/// that the caller runs in. REQUIRES: as many codes as values.
Float8Factors encode_float8(std::span<const bfloat16> values, std::span<std::uint8_t> codes);

/// values = codes · inverse, which is that of the scale: numbers of bf16, and one NaN for all codes of one.
/// In the arena that the caller runs in.
void decode_float8(std::span<const std::uint8_t> codes, float inverse, std::span<bfloat16> values);

}  // namespace strata
