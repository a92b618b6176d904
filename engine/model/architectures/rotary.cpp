#include "engine/model/architectures/rotary.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/checked.h"
#include "base/nth.h"
#include "base/rotary_row.h"

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
float long_rope_factor(const RopeOptions::LongRope& scaling, std::int64_t length, std::int64_t index) {
  const bool is_long = length > scaling.original_max_positions;
  const std::vector<double>& factors = is_long ? scaling.long_factors : scaling.short_factors;
  return static_cast<float>(nth(factors, index));
}

/// The frequencies between which YaRN blends, by their numbers.
struct Blend {
  double first, last;
};

Blend blend_of(const RopeOptions& options, const RopeOptions::Yarn& yarn, std::int64_t columns) {
  const auto dimension = static_cast<double>(columns);
  const auto number_of = [&](double rotations) {
    const double positions = static_cast<double>(yarn.original_max_positions);
    return dimension * std::log(positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(options.theta));
  };
  Blend blend = {number_of(yarn.fast_rotations), number_of(yarn.slow_rotations)};
  if (yarn.truncates) blend = {std::floor(blend.first), std::ceil(blend.last)};
  blend = {std::max(blend.first, 0.0), std::min(blend.last, dimension - 1)};
  if (blend.first == blend.last) blend.last += 0.001;
  return blend;
}

float yarn_frequency(const RopeOptions::Yarn& yarn, const Blend& blend, float power, std::int64_t index) {
  const float along = (static_cast<float>(index) - static_cast<float>(blend.first)) /
                      static_cast<float>(blend.last - blend.first);
  const float kept = 1 - std::clamp(along, 0.0F, 1.0F);
  return 1 / (static_cast<float>(yarn.factor) * power) * (1 - kept) + 1 / power * kept;
}

/// That of sequences of this length.
float theta_of(const RopeOptions& options, std::int64_t columns, std::int64_t length) {
  if (!options.dynamic || length <= options.dynamic->max_positions) return static_cast<float>(options.theta);
  const auto [factor, max_positions] = *options.dynamic;
  const auto dimension = static_cast<double>(columns);
  const float stretch =
      static_cast<float>(factor) * static_cast<float>(length) / static_cast<float>(max_positions) -
      static_cast<float>(factor - 1);
  return static_cast<float>(options.theta) *
         std::pow(stretch, static_cast<float>(dimension / (dimension - 2)));
}

/// Those of a sequence of this length, in radians per position.
std::vector<float> frequencies(const Rotation& rotation, std::int64_t length) {
  const RopeOptions& options = rotation.options;
  const std::int64_t columns = rotated_columns(rotation);
  const float theta = theta_of(options, columns, length);
  const Blend blend = options.yarn ? blend_of(options, *options.yarn, columns) : Blend();
  std::vector<float> frequencies;
  for (std::int64_t index = 0; index < columns / 2; ++index) {
    const float power = std::pow(theta, static_cast<float>(2 * index) / static_cast<float>(columns));
    float& frequency = frequencies.emplace_back(1 / power);
    if (options.long_rope) {
      frequency = 1 / (long_rope_factor(*options.long_rope, length, index) * power);
    } else if (options.yarn) {
      frequency = yarn_frequency(*options.yarn, blend, power, index);
    } else if (options.llama3) {
      frequency = scaled_frequency(*options.llama3, frequency);
    } else if (options.linear_factor != 1) {
      frequency /= static_cast<float>(options.linear_factor);
    }
  }
  return frequencies;
}

double attention_factor(const RopeOptions& options) {
  if (options.long_rope) return options.long_rope->attention_factor;
  return options.yarn ? options.yarn->attention_factor : 1;
}

void fill_row(const RotaryTables& tables, std::int64_t row, std::int64_t position,
              const std::vector<float>& frequencies, double scale) {
  float* const cosine = tables.cosine.row<float>(row);
  float* const sine = tables.sine.row<float>(row);
  for (std::size_t index = 0; index < frequencies.size(); ++index) {
    const float angle = static_cast<float>(position) * frequencies[index];
    cosine[index] = static_cast<float>(scale * std::cos(double{angle}));
    sine[index] = static_cast<float>(scale * std::sin(double{angle}));
  }
}

}  // namespace

std::int64_t rotated_columns(const Rotation& rotation) {
  return static_cast<std::int64_t>(static_cast<double>(rotation.head_dimension) *
                                   rotation.options.rotated_share);
}

std::int64_t short_length(const Rotation& rotation) {
  if (rotation.options.long_rope) return rotation.options.long_rope->original_max_positions;
  return rotation.options.dynamic ? rotation.options.dynamic->max_positions : 0;
}

Bytes rotary_table_bytes(const Rotation& rotation, std::int64_t sequence) {
  return align_up(checked_product(sequence, rotated_columns(rotation) / 2, size_of(DType::fp32)));
}

RotaryTables rotary_tables(const Rotation& rotation, std::int64_t sequence, std::byte* memory) {
  const std::int64_t half = rotated_columns(rotation) / 2;
  return {{memory, DType::fp32, sequence, half},
          {memory + rotary_table_bytes(rotation, sequence), DType::fp32, sequence, half}};
}

void fill_rotary_tables(const Rotation& rotation, std::int64_t sequence, std::span<std::byte> memory,
                        const ContextPart& part) {
  assert(static_cast<Bytes>(memory.size()) >= 2 * rotary_table_bytes(rotation, sequence));
  const RotaryTables tables = rotary_tables(rotation, sequence, memory.data());
  const std::vector<float> steps = frequencies(rotation, part.ranks * sequence);
  for (std::int64_t row = 0; row < sequence; ++row)
    fill_row(tables, row, part.positions(sequence).at(row), steps, attention_factor(rotation.options));
}

void fill_rotary_tables_by_length(const Rotation& rotation, std::int64_t positions,
                                  std::span<std::byte> memory) {
  const std::int64_t rows = kRotaryRowsOfPlace * positions;
  assert(static_cast<Bytes>(memory.size()) >= 2 * rotary_table_bytes(rotation, rows));
  const RotaryTables tables = rotary_tables(rotation, rows, memory.data());
  for (const bool is_long : {false, true}) {
    const std::vector<float> steps = frequencies(rotation, is_long ? positions : short_length(rotation));
    for (std::int64_t place = 0; place < positions; ++place)
      fill_row(tables, rotary_row(place, is_long), place, steps, attention_factor(rotation.options));
  }
}

}  // namespace strata
