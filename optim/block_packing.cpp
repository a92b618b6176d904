#include "optim/block_packing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/nth.h"
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

/// Elements of nf4 whose codes are made together, in vectors.
constexpr std::int64_t kTogether = 64;

/// Codes of nf4, a byte each, of up to kTogether elements; `times` is 1 / scale.
template <typename T>
std::array<std::uint8_t, kTogether> nf4_codes(const T* elements, std::int64_t count, float times) {
  std::array<float, kTogether> scaled = {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    scaled[i] = static_cast<float>(elements[i]) * times;
  std::array<std::int32_t, kTogether> above = {};
  for (const float midpoint : kMidpoints)
    for (std::size_t i = 0; i < scaled.size(); ++i) above[i] += scaled[i] > midpoint ? 1 : 0;
  std::array<std::uint8_t, kTogether> codes = {};
  std::ranges::transform(above, codes.begin(),
                         [](std::int32_t code) { return static_cast<std::uint8_t>(code); });
  return codes;
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

template <typename T>
void encode_int8(const BlockRun& run, const T* elements, const float* scales, std::int64_t first,
                 std::int64_t last, std::uint8_t* codes) {
  for_blocks(run, first, last, [&](std::int64_t number, std::int64_t begin, std::int64_t end) {
    const float scale = scales[number];
    if (!(scale > 0)) return std::fill(codes + begin, codes + end, std::uint8_t{0});
    const float times = 127.0F / scale;
    for (std::int64_t i = begin; i < end; ++i) codes[i] = int8_code(static_cast<float>(elements[i]), times);
  });
}

template <typename T>
void encode_nf4(const BlockRun& run, const T* elements, const float* scales, std::int64_t first,
                std::int64_t last, std::uint8_t* codes) {
  for_blocks(run, first, last, [&](std::int64_t number, std::int64_t begin, std::int64_t end) {
    const float scale = scales[number];
    std::array<std::uint8_t, kTogether> some;
    some.fill(kZeroOfNf4);
    for (std::int64_t from = begin; from < end; from += kTogether) {
      const std::int64_t count = std::min(kTogether, end - from);
      if (scale > 0) some = nf4_codes(elements + from, count, 1 / scale);
      for (std::int64_t i = from; i < from + count; ++i) {
        const std::uint8_t code = nth(some, i - from);
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
        encode_int8(run, typed, scales, first, last, codes);
      } else {
        encode_nf4(run, typed, scales, first, last, codes);
      }
    });
  });
}

void decode_blocks(const BlockRun& run, DType precision, const std::uint8_t* codes, const float* scales,
                   std::int64_t first, std::int64_t count, float* values) {
  with_storage_type(precision, [&]<typename T>(T) {
    const auto number_of = [&](std::size_t code, float scale) {
      return static_cast<float>(T(block_number(run.format, static_cast<std::uint8_t>(code), scale)));
    };
    for_blocks(run, first, first + count, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      const float scale = scales[block];
      if (run.format == BlockFormat::int8) {
        for (std::int64_t i = begin; i < end; ++i) values[i - first] = number_of(codes[i], scale);
        return;
      }
      std::array<float, 16> numbers = {};
      for (std::size_t code = 0; code < numbers.size(); ++code) numbers[code] = number_of(code, scale);
      for (std::int64_t i = begin; i < end; ++i)
        values[i - first] = numbers[code_at(BlockFormat::nf4, codes, i)];
    });
  });
}

}  // namespace strata
