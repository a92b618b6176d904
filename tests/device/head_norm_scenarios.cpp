#include "tests/device/head_norm_scenarios.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/device/norm_calls.h"

namespace strata {

Scenario head_norm_scenario(DType dtype, const HeadNormCase& c) {
  const std::int64_t tokens = c.batch * c.sequence, heads = c.keys * (c.queries_per_key + 1);
  const std::int64_t columns = heads * c.dimension, half = c.dimension / 2;
  OperandMemory cosine(DType::fp32, c.sequence, half), sine(DType::fp32, c.sequence, half);
  OperandMemory deviations(DType::fp32, heads, tokens);
  for (std::int64_t t = 0; t < c.sequence; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(t) / static_cast<float>(i + 1);
      cosine.set(t, i, std::cos(angle));
      sine.set(t, i, std::sin(angle));
    }
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t t = 0; t < tokens; ++t)
      deviations.set(head, t, 0.5F + 0.01F * static_cast<float>((7 * head + t) % 50));
  }
  Scenario scenario = {
      fmt::format("head norm {} {}x{} heads {} of {} and one{}{}{}", name_of(dtype), c.batch, c.sequence,
                  c.dimension, c.queries_per_key, flag(c.rotated, "rotated"),
                  flag(c.unit_offset, "unit offset"), flag(!c.documents.empty(), "documents")),
      {random_operand(1, dtype, tokens, columns, 3 * c.padding_unit),
       random_operand(2, dtype, 1, c.dimension), random_operand(3, dtype, 1, c.dimension), cosine, sine,
       poisoned_operand(dtype, tokens, columns, c.padding_unit), poisoned_operand(DType::fp32, heads, tokens),
       deviations, random_operand(4, dtype, tokens, columns, 2 * c.padding_unit),
       random_operand(5, DType::fp32, 1, c.dimension), random_operand(6, DType::fp32, 1, c.dimension)},
      [c](Kernels& kernels, const std::vector<Matrix>& x) {
        const Places places = c.documents.empty() ? Places() : indices_of(x[11]);
        const Matrix cosines = c.rotated ? x[3] : Matrix(), sines = c.rotated ? x[4] : Matrix();
        kernels.run(HeadNormForward{.queries_per_key = c.queries_per_key,
                                    .epsilon = 1e-6F,
                                    .x = x[0],
                                    .query_weight = x[1],
                                    .key_weight = x[2],
                                    .unit_offset = c.unit_offset,
                                    .out = x[5],
                                    .reciprocal_deviation = x[6],
                                    .sequence = c.sequence,
                                    .cosine = cosines,
                                    .sine = sines,
                                    .places = places});
        kernels.run(HeadNormBackward{.queries_per_key = c.queries_per_key,
                                     .x = x[0],
                                     .query_weight = x[1],
                                     .key_weight = x[2],
                                     .unit_offset = c.unit_offset,
                                     .reciprocal_deviation = x[7],
                                     .gradient = x[8],
                                     .query_weight_gradient = x[9],
                                     .key_weight_gradient = x[10],
                                     .sequence = c.sequence,
                                     .cosine = cosines,
                                     .sine = sines,
                                     .places = places});
      }};
  if (!c.documents.empty())
    scenario.operands.push_back(places_operand({.batch = c.batch, .sequence = c.sequence}, c.documents));
  // What was turned back is rounded before the weights' gradients are summed; the reference's fp32 copy is
  // not.
  if (c.rotated) scenario.fp32_tolerance = scenario.tolerance(dtype);
  return scenario;
}

}  // namespace strata
