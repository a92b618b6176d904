#include "engine/model/rotary.h"

#include <cassert>
#include <cmath>
#include <numbers>

#include "base/checked.h"

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

/// Divides the frequency of sequences of this length.
float long_rope_factor(const RopeOptions::LongRope& scaling, std::int64_t sequence, std::int64_t index) {
  const bool is_long = sequence > scaling.original_max_positions;
  const std::vector<double>& factors = is_long ? scaling.long_factors : scaling.short_factors;
  return static_cast<float>(factors[static_cast<std::size_t>(index)]);
}

float frequency(const Rotation& rotation, std::int64_t sequence, std::int64_t index) {
  const float exponent = static_cast<float>(2 * index) / static_cast<float>(rotation.head_dimension);
  const float power = std::pow(static_cast<float>(rotation.options.theta), exponent);
  if (rotation.options.long_rope)
    return 1 / (long_rope_factor(*rotation.options.long_rope, sequence, index) * power);
  const float plain = 1 / power;
  if (rotation.options.linear_factor != 1) return plain / static_cast<float>(rotation.options.linear_factor);
  return rotation.options.llama3 ? scaled_frequency(*rotation.options.llama3, plain) : plain;
}

}  // namespace

Bytes rotary_table_bytes(const Rotation& rotation, std::int64_t sequence) {
  return align_up(checked_product(sequence, rotation.head_dimension / 2, size_of(DType::fp32)));
}

RotaryTables rotary_tables(const Rotation& rotation, std::int64_t sequence, std::byte* memory) {
  const std::int64_t half = rotation.head_dimension / 2;
  return {{memory, DType::fp32, sequence, half},
          {memory + rotary_table_bytes(rotation, sequence), DType::fp32, sequence, half}};
}

void fill_rotary_tables(const Rotation& rotation, std::int64_t sequence, std::span<std::byte> memory,
                        const ContextPart& part) {
  assert(static_cast<Bytes>(memory.size()) >= 2 * rotary_table_bytes(rotation, sequence));
  const RotaryTables tables = rotary_tables(rotation, sequence, memory.data());
  const auto& long_rope = rotation.options.long_rope;
  const double scale = long_rope ? long_rope->attention_factor : 1;
  for (std::int64_t index = 0; index < rotation.head_dimension / 2; ++index) {
    const float step = frequency(rotation, part.ranks * sequence, index);
    for (std::int64_t row = 0; row < sequence; ++row) {
      const float angle = static_cast<float>(part.positions(sequence).at(row)) * step;
      tables.cosine.row<float>(row)[index] = static_cast<float>(scale * std::cos(double{angle}));
      tables.sine.row<float>(row)[index] = static_cast<float>(scale * std::sin(double{angle}));
    }
  }
}

}  // namespace strata
