#include "optim/block_packing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/storage_type.h"
#include "base/task_arena.h"

namespace strata {
namespace {

constexpr std::uint8_t kZeroOfNf4 = 7;
/// Numbers that are smaller have no reciprocal in fp32.
constexpr float kSmallestScale = 1e-38F;
/// Elements of one thread; an even number, so that no two threads write to one byte.
constexpr std::int64_t kGrain = 64 * 1024;

constexpr std::array<float, 15> make_midpoints() {
  std::array<float, 15> midpoints = {};
  float below = normal_float4(0);
  for (std::size_t i = 0; i < midpoints.size(); ++i) {
    const float above = normal_float4(static_cast<std::uint8_t>(i + 1));
    midpoints[i] = (below + above) / 2;
    below = above;
  }
  return midpoints;
}
constexpr std::array<float, 15> kMidpoints = make_midpoints();

/// `times` is 1 / scale.
std::uint8_t nf4_code(float value, float times) {
  const float scaled = value * times;
  int code = 0;
  for (const float midpoint : kMidpoints) code += scaled > midpoint ? 1 : 0;
  return static_cast<std::uint8_t>(code);
}

/// `times` is 127 / scale.
std::uint8_t int8_code(float value, float times) {
  // Above 2^23 neighbouring floats are whole numbers, so the addition rounds to the nearest, ties to even.
  constexpr float kWhole = 0x1.8p23F;
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value * times + kWhole));
}

/// Calls body(number of the block, first, last) for each block that elements [first, last) of the run are in.
template <typename Body>
void for_blocks(const BlockRun& run, std::int64_t first, std::int64_t last, const Body& body) {
  for (std::int64_t begin = first; begin < last;) {
    const std::int64_t number = (run.before + begin) / run.block;
    const std::int64_t end = std::min(last, (number + 1) * run.block - run.before);
    body(number, begin, end);
    begin = end;
  }
}

template <typename T>
float magnitude_of(const T* elements, std::int64_t count) {
  std::uint32_t largest = 0;  // what is not finite has the largest bits
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(static_cast<float>(elements[i])) & 0x7fffffffU);
  return std::bit_cast<float>(largest);
}

template <BlockFormat format, typename T>
void encode(const BlockRun& run, const T* elements, const float* scales, std::int64_t first,
            std::int64_t last, std::uint8_t* codes) {
  for_blocks(run, first, last, [&](std::int64_t number, std::int64_t begin, std::int64_t end) {
    const float scale = scales[number];
    const bool has_numbers = scale > 0;
    const float times = has_numbers ? (format == BlockFormat::int8 ? 127.0F : 1.0F) / scale : 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<float>(elements[i]);
      if constexpr (format == BlockFormat::int8) {
        codes[i] = has_numbers ? int8_code(value, times) : std::uint8_t{0};
      } else {
        const std::uint8_t code = has_numbers ? nf4_code(value, times) : kZeroOfNf4;
        codes[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? code << 4 : codes[i / 2] | code);
      }
    }
  });
}

}  // namespace

float block_magnitude(DType precision, const void* elements, std::int64_t count) {
  return with_storage_type(
      precision, [&]<typename T>(T) { return magnitude_of(static_cast<const T*>(elements), count); });
}

float block_scale(BlockFormat format, float magnitude) {
  if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude < kSmallestScale) return 0;
  const std::uint8_t largest = format == BlockFormat::int8 ? 127 : 15;
  // What a code stands for grows with the scale, so this ends.
  float scale = magnitude;
  while (block_number(format, largest, scale) != scale) scale = block_number(format, largest, scale);
  return scale;
}

void find_block_scales(const BlockRun& run, DType precision, const void* elements, float* scales) {
  const std::int64_t blocks = (run.before + run.count + run.block - 1) / run.block;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / run.block);
  for_ranges(blocks, grain, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = std::max<std::int64_t>(0, begin * run.block - run.before);
    const std::int64_t last = std::min(run.count, end * run.block - run.before);
    for_blocks(run, first, last, [&](std::int64_t number, std::int64_t from, std::int64_t to) {
      const auto* const start = static_cast<const std::byte*>(elements) + from * size_of(precision);
      scales[number] = block_scale(run.format, block_magnitude(precision, start, to - from));
    });
  });
}

void encode_blocks(const BlockRun& run, DType precision, const void* elements, const float* scales,
                   std::uint8_t* codes) {
  // Borders between threads are whole bytes of codes.
  for_ranges((run.count + 1) / 2, kGrain / 2, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = 2 * begin, last = std::min(run.count, 2 * end);
    with_storage_type(precision, [&]<typename T>(T) {
      const auto* const typed = static_cast<const T*>(elements);
      if (run.format == BlockFormat::int8) {
        encode<BlockFormat::int8>(run, typed, scales, first, last, codes);
      } else {
        encode<BlockFormat::nf4>(run, typed, scales, first, last, codes);
      }
    });
  });
}

void decode_blocks(const BlockRun& run, DType precision, const std::uint8_t* codes, const float* scales,
                   std::int64_t first, std::int64_t count, float* values) {
  with_storage_type(precision, [&]<typename T>(T) {
    for_blocks(run, first, first + count, [&](std::int64_t number, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float number_of_code = block_number(run.format, code_at(run.format, codes, i), scales[number]);
        values[i - first] = static_cast<float>(T(number_of_code));
      }
    });
  });
}

}  // namespace strata
