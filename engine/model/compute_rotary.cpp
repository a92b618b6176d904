#include "engine/model/compute_rotary.h"
#include "base/checked.h"

#include <cassert>
#include <cmath>
#include <numbers>

namespace strata {
namespace {

/// Low frequencies are divided by the factor, high ones kept, those between interpolated (Llama 3.1).
float scaled_frequency(const RopeOptions::Llama3& scaling, float frequency) {
  const auto context = static_cast<float>(scaling.original_max_positions);
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto high = static_cast<float>(scaling.high_frequency_factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength > context / low) return frequency / factor;
  if (wavelength < context / high) return frequency;
  const float smooth = (context / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

float frequency(const Architecture& architecture, std::int64_t index) {
  const float exponent = static_cast<float>(2 * index) / static_cast<float>(architecture.head_dimension);
  const float plain = 1 / std::pow(static_cast<float>(architecture.rope.theta), exponent);
  return architecture.rope.llama3 ? scaled_frequency(*architecture.rope.llama3, plain) : plain;
}

Bytes table_bytes(const Architecture& architecture, std::int64_t sequence) {
  return align_up(checked_product(sequence, architecture.head_dimension / 2, size_of(DType::fp32)));
}

}  // namespace

Bytes rotary_bytes(const Architecture& architecture, std::int64_t sequence) {
  return 2 * table_bytes(architecture, sequence);
}

RotaryTables rotary_tables(const Architecture& architecture, std::int64_t sequence, const std::byte* memory) {
  // A Matrix has no read-only form; kernels only read these operands.
  auto* data = const_cast<std::byte*>(memory);
  const std::int64_t half = architecture.head_dimension / 2;
  return {{data, DType::fp32, sequence, half},
          {data + table_bytes(architecture, sequence), DType::fp32, sequence, half}};
}

void fill_rotary_tables(const Architecture& architecture, std::int64_t sequence,
                        std::span<std::byte> memory) {
  assert(static_cast<Bytes>(memory.size()) >= rotary_bytes(architecture, sequence));
  const RotaryTables tables = rotary_tables(architecture, sequence, memory.data());
  for (std::int64_t index = 0; index < architecture.head_dimension / 2; ++index) {
    const float step = frequency(architecture, index);
    for (std::int64_t position = 0; position < sequence; ++position) {
      const float angle = static_cast<float>(position) * step;
      tables.cosine.row<float>(position)[index] = static_cast<float>(std::cos(double{angle}));
      tables.sine.row<float>(position)[index] = static_cast<float>(std::sin(double{angle}));
    }
  }
}

}  // namespace strata
