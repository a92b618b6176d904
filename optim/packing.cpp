#include "optim/packing.h"

#include <algorithm>
#include <cstring>

#include "base/float8_codes.h"

namespace strata {
namespace {

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
    const auto count = static_cast<std::size_t>(stretch.count);
    auto* codes = reinterpret_cast<std::uint8_t*>(packed + stretch.at);
    const Float8Factors factors = encode_float8({from, count}, {codes, count});
    std::memcpy(packed + stretch.factors_at, &factors, sizeof(factors));
  }
}

void unpack(const Packing& packing, std::size_t part, const std::byte* packed, bfloat16* elements) {
  for (const PackedStretch& stretch : packing.parts[part]) {
    bfloat16* to = elements + stretch.first;
    if (!stretch.has_codes()) {
      std::memcpy(to, packed + stretch.at, static_cast<std::size_t>(stretch.count) * sizeof(*to));
      continue;
    }
    const auto count = static_cast<std::size_t>(stretch.count);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(packed + stretch.at);
    decode_float8({codes, count}, inverse_of(stretch, packed), {to, count});
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
