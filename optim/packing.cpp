#include "optim/packing.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/float8_codes.h"
#include "base/nth.h"
#include "base/storage_type.h"
#include "optim/block_packing.h"

namespace strata {
namespace {

float inverse_of(const PackedStretch& stretch, const std::byte* packed) {
  Float8Factors factors;
  std::memcpy(&factors, packed + stretch.scales_at, sizeof(factors));
  return factors.inverse;
}

template <typename Bytes>
auto* codes_in(const PackedStretch& stretch, Bytes* packed) {
  using Code = std::conditional_t<std::is_const_v<Bytes>, const std::uint8_t, std::uint8_t>;
  return reinterpret_cast<Code*>(packed + stretch.at);
}

const float* scales_of(const PackedStretch& stretch, const std::byte* packed) {
  return reinterpret_cast<const float*>(packed + stretch.scales_at);
}

BlockRun run_of(const PackedStretch& stretch) {
  return {stretch.block_format(), stretch.block, stretch.before, stretch.count};
}

const PackedStretch* stretch_at(const std::vector<PackedStretch>& part, std::int64_t element) {
  const auto behind = std::ranges::upper_bound(part, element, {}, &PackedStretch::first);
  return behind == part.begin() ? nullptr : &*std::prev(behind);
}

/// Elements [first, first + count) of a stretch.
void read_stretch(const Packing& packing, const PackedStretch& stretch, const std::byte* packed,
                  std::int64_t first, std::int64_t count, float* values) {
  if (stretch.has_blocks()) {
    return decode_blocks(run_of(stretch), packing.precision, codes_in(stretch, packed),
                         scales_of(stretch, packed), first, count, values);
  }
  if (stretch.as == PackedAs::float8) {
    const std::uint8_t* codes = codes_in(stretch, packed) + first;
    const float inverse = inverse_of(stretch, packed);
    std::transform(codes, codes + count, values,
                   [&](std::uint8_t code) { return static_cast<float>(decoded_float8(code, inverse)); });
    return;
  }
  with_storage_type(packing.precision, [&]<typename T>(T) {
    const T* elements = reinterpret_cast<const T*>(packed + stretch.at) + first;
    std::transform(elements, elements + count, values, [](T value) { return static_cast<float>(value); });
  });
}

}  // namespace

void pack(const Packing& packing, std::size_t part, const void* elements, std::byte* packed) {
  const Bytes size = size_of(packing.precision);
  for (const PackedStretch& stretch : packing.parts[part]) {
    const std::byte* from = static_cast<const std::byte*>(elements) + stretch.first * size;
    const auto count = static_cast<std::size_t>(stretch.count);
    if (!stretch.has_codes()) {
      std::memcpy(packed + stretch.at, from, count * static_cast<std::size_t>(size));
    } else if (stretch.has_blocks()) {
      encode_blocks(run_of(stretch), packing.precision, from, scales_of(stretch, packed),
                    codes_in(stretch, packed));
    } else {
      const Float8Factors factors =
          encode_float8({reinterpret_cast<const bfloat16*>(from), count}, {codes_in(stretch, packed), count});
      std::memcpy(packed + stretch.scales_at, &factors, sizeof(factors));
    }
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
    if (from < to)
      read_stretch(packing, *stretch, packed, from - stretch->first, to - from, &nth(values, from - first));
  }
}

}  // namespace strata
