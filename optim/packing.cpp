#include "optim/packing.h"

#include <algorithm>
#include <cstring>

#include "base/float8_codes.h"
#include "base/task_arena.h"

namespace strata {
namespace {

/// Elements that one thread works on at a time.
constexpr std::int64_t kGrain = 64 * 1024;

std::span<const bfloat16> elements_of(const bfloat16* elements, std::int64_t first, std::int64_t last) {
  return {elements + first, static_cast<std::size_t>(last - first)};
}

Float8Scale scale_of(const bfloat16* elements, std::int64_t count) {
  LargestMagnitude largest;
  for_ranges(count, kGrain, [&](std::int64_t first, std::int64_t last, int) {
    largest.raise(elements_of(elements, first, last));
  });
  return largest.scale();
}

float inverse_of(const PackedStretch& stretch, const std::byte* packed) {
  Float8Factors factors;
  std::memcpy(&factors, packed + stretch.factors_at, sizeof(factors));
  return factors.inverse;
}

const PackedStretch* stretch_at(const std::vector<PackedStretch>& part, std::int64_t element) {
  const auto behind = std::ranges::upper_bound(part, element, {}, &PackedStretch::first);
  return behind == part.begin() ? nullptr : &*std::prev(behind);
}

}  // namespace

void pack(const Packing& packing, std::size_t part, const bfloat16* elements, std::byte* packed) {
  for (const PackedStretch& stretch : packing.parts[part]) {
    const bfloat16* from = elements + stretch.first;
    if (!stretch.has_codes()) {
      std::memcpy(packed + stretch.at, from, static_cast<std::size_t>(stretch.count) * sizeof(*from));
      continue;
    }
    const Float8Scale scale = scale_of(from, stretch.count);
    const Float8Factors factors = scale.factors();
    std::memcpy(packed + stretch.factors_at, &factors, sizeof(factors));
    auto* codes = reinterpret_cast<std::uint8_t*>(packed + stretch.at);
    for_ranges(stretch.count, kGrain, [&](std::int64_t first, std::int64_t last, int) {
      encode_float8(elements_of(from, first, last), scale,
                    {codes + first, static_cast<std::size_t>(last - first)});
    });
  }
}

void unpack(const Packing& packing, std::size_t part, const std::byte* packed, bfloat16* elements) {
  for (const PackedStretch& stretch : packing.parts[part]) {
    bfloat16* to = elements + stretch.first;
    if (!stretch.has_codes()) {
      std::memcpy(to, packed + stretch.at, static_cast<std::size_t>(stretch.count) * sizeof(*to));
      continue;
    }
    const float inverse = inverse_of(stretch, packed);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(packed + stretch.at);
    for_ranges(stretch.count, kGrain, [&](std::int64_t first, std::int64_t last, int) {
      const auto count = static_cast<std::size_t>(last - first);
      decode_float8({codes + first, count}, inverse, {to + first, count});
    });
  }
}

void read_packed(const Packing& packing, std::size_t part, const std::byte* packed, std::int64_t first,
                 std::span<float> values) {
  std::ranges::fill(values, 0.0F);
  const std::vector<PackedStretch>& stretches = packing.parts[part];
  const std::int64_t end = first + std::ssize(values);
  const PackedStretch* stretch = stretch_at(stretches, first);
  if (stretch == nullptr) stretch = stretches.data();
  for (; stretch != stretches.data() + stretches.size() && stretch->first < end; ++stretch) {
    const std::int64_t from = std::max(first, stretch->first);
    const std::int64_t to = std::min(end, stretch->first + stretch->count);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(packed + stretch->at);
    const auto* exact = reinterpret_cast<const bfloat16*>(packed + stretch->at);
    const float inverse = stretch->has_codes() ? inverse_of(*stretch, packed) : 1;
    for (std::int64_t element = from; element < to; ++element) {
      const std::int64_t i = element - stretch->first;
      values[static_cast<std::size_t>(element - first)] =
          static_cast<float>(stretch->has_codes() ? decoded_float8(codes[i], inverse) : exact[i]);
    }
  }
}

}  // namespace strata
