// Memory that shows what was never written and who writes beside it, and values to put there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/random.h"

namespace strata::test {

/// Exactly `bytes` bytes, all 0xFF (NaN in fp32 and bf16), between two stretches of a pattern.
class GuardedMemory {
 public:
  explicit GuardedMemory(Bytes bytes)
      : size_(bytes),
        offset_(0),
        bytes_(static_cast<std::size_t>(bytes + kAlignment) + 2 * kGuard, kPattern) {
    const auto front = reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuard;
    offset_ =
        kGuard + static_cast<std::size_t>(align_up(static_cast<Bytes>(front)) - static_cast<Bytes>(front));
    std::fill_n(data(), size_, kNaN);
  }
  GuardedMemory(GuardedMemory&&) = default;  // a copy would lose the alignment
  GuardedMemory& operator=(GuardedMemory&&) = default;

  std::byte* data() { return bytes_.data() + offset_; }
  Bytes size() const { return size_; }
  bool intact() const {
    const auto is_pattern = [](std::byte byte) { return byte == kPattern; };
    const auto front_end = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(bytes_.begin(), front_end, is_pattern) &&
           std::all_of(front_end + static_cast<std::ptrdiff_t>(size_), bytes_.end(), is_pattern);
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kPattern{0xA5}, kNaN{0xFF};

  Bytes size_;
  std::size_t offset_;  ///< to the first aligned byte behind the front guard
  std::vector<std::byte> bytes_;
};

/// Standard normal numbers that depend on the seed alone.
inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  const CounterRandom random(seed, 0);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return values;
}

/// fp32 values in memory of `dtype`.
inline GuardedMemory in_memory(const std::vector<float>& values, DType dtype) {
  GuardedMemory memory(static_cast<Bytes>(values.size()) * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      reinterpret_cast<float*>(memory.data())[i] = values[i];
    } else {
      reinterpret_cast<bfloat16*>(memory.data())[i] = bfloat16(values[i]);
    }
  }
  return memory;
}

inline std::vector<float> floats_of(GuardedMemory& memory) {
  std::vector<float> values(static_cast<std::size_t>(memory.size()) / sizeof(float));
  std::copy_n(memory.data(), memory.size(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace strata::test
