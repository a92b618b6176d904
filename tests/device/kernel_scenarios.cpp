#include "tests/device/kernel_scenarios.h"

#include <fmt/format.h>

#include <cmath>

#include "base/dropout.h"
#include "engine/device/kernel_calls.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {
namespace {

using Views = std::vector<Matrix>;

/// `count` values in [0, limit) in which many repeat.
std::vector<std::int32_t> tokens_below(std::int64_t limit, std::int64_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>((i * i + 3 * i) % limit));
  return tokens;
}

/// Query, key and value side by side in one matrix, as a fused projection leaves them.
struct Fused {
  Matrix query, key, value;
};
Fused split(const Matrix& fused, const AttentionShape& shape) {
  const std::int64_t queries = shape.heads * shape.head_dimension;
  const std::int64_t keys = shape.kv_heads * shape.head_dimension;
  return {fused.column_slice(0, queries), fused.column_slice(queries, keys),
          fused.column_slice(queries + keys, keys)};
}
std::int64_t fused_columns(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dimension;
}
const char* name_of(Activation kind) {
  switch (kind) {
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::silu:
      return "silu";
    case Activation::relu2:
      return "relu2";
  }
  return "";
}
std::string describe(const AttentionShape& shape, DType dtype) {
  return fmt::format("{} batch {} sequence {} heads {}/{} dimension {} window {} cap {}", name_of(dtype),
                     shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_dimension,
                     shape.window, shape.soft_cap) +
         (shape.context.ranks > 1
              ? fmt::format(" step {} of rank {} of {}", shape.step, shape.context.rank, shape.context.ranks)
              : "");
}
Places places_at(const Views& operands, std::size_t number, const Documents& documents) {
  return documents.empty() ? Places() : indices_of(operands[number]);
}
/// What is made of some keys only is fp32.
DType out_dtype(const AttentionShape& shape, DType dtype) {
  return shape.step + 1 < shape.context.ranks ? DType::fp32 : dtype;
}

}  // namespace

Scenario matmul_scenario(const ProductCase& c) {
  Scenario scenario;
  scenario.name = fmt::format(
      "matmul {}x{}x{} {} to {}{}{}{}{}{}{}{} padding {}", c.m, c.n, c.k, name_of(c.dtype), name_of(c.out),
      flag(c.transpose_a, "a^T"), flag(c.transpose_b, "b^T"), flag(c.accumulate, "accumulate"),
      flag(c.bias, "bias"), flag(c.addend, "addend"), flag(c.rounding == Rounding::e4m3, "e4m3"),
      flag(c.activation.has_value(), "activated"), c.padding);
  scenario.operands = {
      c.transpose_a ? random_operand(1, c.dtype, c.k, c.m, c.padding)
                    : random_operand(1, c.dtype, c.m, c.k, c.padding),
      c.transpose_b ? random_operand(2, c.dtype, c.n, c.k, c.padding)
                    : random_operand(2, c.dtype, c.k, c.n, c.padding),
      c.accumulate ? random_operand(3, c.out, c.m, c.n, c.padding)
                   : poisoned_operand(c.out, c.m, c.n, c.padding),
      random_operand(4, c.dtype, 1, c.n),
  };
  if (c.activation) scenario.operands.push_back(poisoned_operand(c.out, c.m, c.n, 3 * c.padding));
  if (c.addend) scenario.operands.push_back(random_operand(5, c.out, c.m, c.n, 2 * c.padding));
  scenario.call = [c](Kernels& kernels, const Views& x) {
    kernels.run(Product{.a = x[0],
                        .transpose_a = c.transpose_a,
                        .b = x[1],
                        .transpose_b = c.transpose_b,
                        .out = x[2],
                        .accumulate = c.accumulate,
                        .bias = c.bias ? x[3] : Matrix(),
                        .addend = c.addend ? x[4] : Matrix(),
                        .rounding = c.rounding,
                        .activated = c.activation ? x[4] : Matrix(),
                        .activation = c.activation.value_or(Activation::gelu_tanh)});
  };
  return scenario;
}

Scenario column_sums_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                              std::int64_t padding_unit) {
  return {
      fmt::format("column sums {} {}x{}", name_of(dtype), rows, columns),
      {random_operand(1, dtype, rows, columns, 3 * padding_unit), random_operand(2, DType::fp32, 1, columns)},
      [](Kernels& kernels, const Views& x) {
        kernels.run(ColumnSum{x[0], x[1]});
      }};
}

Scenario column_dots_scenario(DType dtype, std::int64_t rows, std::int64_t columns, bool factors,
                              std::int64_t padding_unit) {
  return {fmt::format("column dots {} {}x{}{}", name_of(dtype), rows, columns, flag(factors, "factors")),
          {random_operand(1, dtype, rows, columns, 3 * padding_unit),
           random_operand(2, dtype, rows, columns, 2 * padding_unit),
           random_operand(3, DType::fp32, 1, columns), random_operand(4, DType::fp32, 1, columns)},
          [factors](Kernels& kernels, const Views& x) {
            kernels.run(ColumnDots{x[0], x[1], factors ? x[2] : Matrix(), x[3]});
          }};
}

Scenario column_scale_scenario(DType dtype, std::int64_t rows, std::int64_t columns, bool bias, bool in_place,
                               std::int64_t padding_unit) {
  return {
      fmt::format("column scale {} {}x{}{}{}", name_of(dtype), rows, columns, flag(bias, "bias and of rows"),
                  flag(in_place, "in place")),
      {random_operand(1, dtype, rows, columns, padding_unit), random_operand(2, DType::fp32, 1, columns),
       random_operand(3, dtype, 1, columns), random_operand(5, DType::fp32, 1, rows),
       in_place ? random_operand(4, dtype, 1, 1) : poisoned_operand(dtype, rows, columns, 2 * padding_unit)},
      [bias, in_place](Kernels& kernels, const Views& x) {
        kernels.run(ColumnScale{.x = x[0],
                                .factors = x[1],
                                .bias = bias ? x[2] : Matrix(),
                                .row_factors = bias ? x[3] : Matrix(),
                                .out = in_place ? x[0] : x[4]});
      }};
}

Scenario row_dots_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding_unit) {
  Scenario scenario = {fmt::format("row dots {} {}x{}", name_of(dtype), rows, columns),
                       {random_operand(1, dtype, rows, columns, padding_unit),
                        random_operand(2, DType::fp32, 1, columns), poisoned_operand(DType::fp32, 1, rows)},
                       [](Kernels& kernels, const Views& x) {
                         kernels.run(RowDots{.a = x[0], .b = x[0], .weight = x[1], .out = x[2]});
                       }};
  for (std::int64_t i = 0; i < columns; ++i)  // sums of squares do not cancel
    scenario.operands[1].set(0, i, std::abs(scenario.operands[1].at(0, i)));
  return scenario;
}

Scenario magnitude_scenario(DType dtype, std::int64_t outputs) {
  Scenario scenario{
      fmt::format("magnitude factors {} {}", name_of(dtype), outputs),
      {random_operand(1, DType::fp32, 1, outputs), random_operand(2, DType::fp32, 1, outputs, 0, 0.1F),
       random_operand(3, dtype, 1, outputs), poisoned_operand(DType::fp32, 1, outputs),
       poisoned_operand(DType::fp32, 1, outputs)},
      [](Kernels& kernels, const Views& x) {
        kernels.run(MagnitudeFactors{x[0], x[1], x[2], x[3], x[4]});
      }};
  for (std::int64_t i = 0; i < outputs; ++i)
    scenario.operands[0].set(0, i, 1 + std::abs(scenario.operands[0].at(0, i)));
  return scenario;
}

Scenario dropout_scenario(DType dtype, std::int64_t rows, std::int64_t columns, float probability,
                          bool in_place, std::int64_t padding_unit) {
  std::vector<std::int32_t> keys;
  for (std::int64_t row = 0; row < rows; ++row)
    keys.push_back(row % 5 == 3 ? kWithoutDropout : static_cast<std::int32_t>(row * 77777));
  return {
      fmt::format("dropout {} {}x{} of {}{}", name_of(dtype), rows, columns, probability,
                  flag(in_place, "in place")),
      {random_operand(1, dtype, rows, columns, padding_unit), index_operand(keys),
       in_place ? random_operand(4, dtype, 1, 1) : poisoned_operand(dtype, rows, columns, 2 * padding_unit)},
      [probability, in_place](Kernels& kernels, const Views& x) {
        kernels.run(Dropout{.x = x[0],
                            .keys = indices_of(x[1]),
                            .site = 7,
                            .first_column = 1000,
                            .probability = probability,
                            .out = in_place ? x[0] : x[2]});
      }};
}

Scenario decode_blocks_scenario(BlockFormat format, DType dtype, std::int64_t count, std::int64_t block,
                                std::int64_t first) {
  const std::int64_t bytes = code_bytes(format, count);
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < (bytes + 3) / 4; ++i)
    words.push_back(static_cast<std::int32_t>((i * 0x9e3779b9 + 0x1234567) & 0xfeffffff));  // no NaN
  const std::int64_t scales = (first + count + block - 1) / block;
  return {
      fmt::format("{} codes as {} {} from {} of blocks of {}", format == BlockFormat::nf4 ? "nf4" : "int8",
                  name_of(dtype), count, first, block),
      {index_operand(words), random_operand(2, DType::fp32, 1, scales), poisoned_operand(dtype, 1, count)},
      [=](Kernels& kernels, const Views& x) {
        kernels.run(DecodeBlocks{.format = format,
                                 .codes = {x[0].row<const std::uint8_t>(0), static_cast<std::size_t>(bytes)},
                                 .scales = {x[1].row<const float>(0), static_cast<std::size_t>(scales)},
                                 .block = block,
                                 .first = first,
                                 .out = x[2]});
      }};
}

Scenario norm_scenario(NormKind kind, DType dtype, std::int64_t rows, std::int64_t columns, bool addend,
                       std::int64_t padding_unit, bool unit_offset) {
  const bool layer = kind == NormKind::layer_norm;
  Scenario scenario;
  scenario.name = fmt::format("{} {} {}x{}{}{}", layer ? "layer_norm" : "rms_norm", name_of(dtype), rows,
                              columns, flag(addend, "addend"), flag(unit_offset, "unit offset"));
  scenario.operands = {random_operand(1, dtype, rows, columns, 5 * padding_unit),
                       random_operand(2, dtype, rows, columns, 2 * padding_unit),
                       poisoned_operand(dtype, rows, columns, padding_unit),
                       random_operand(3, dtype, 1, columns),
                       random_operand(4, dtype, 1, columns),
                       poisoned_operand(dtype, rows, columns, 4 * padding_unit),
                       poisoned_operand(DType::fp32, 1, rows),
                       poisoned_operand(DType::fp32, 1, rows)};
  if (!addend) scenario.operands[2] = random_operand(5, dtype, rows, columns, padding_unit);
  if (!layer) scenario.operands[6] = random_operand(6, DType::fp32, 1, rows);
  // The sum is rounded to its dtype before its statistics are taken; the reference's fp32 copy is not.
  if (addend && dtype != DType::fp32) scenario.fp32_tolerance = scenario.tolerance(dtype);
  scenario.call = [=](Kernels& kernels, const Views& x) {
    kernels.run(NormForward{.kind = kind,
                            .epsilon = 1e-5F,
                            .input = x[0],
                            .addend = addend ? x[1] : Matrix(),
                            .sum = addend ? x[2] : Matrix(),
                            .weight = x[3],
                            .unit_offset = unit_offset,
                            .bias = layer ? x[4] : Matrix(),
                            .out = x[5],
                            .mean = layer ? x[6] : Matrix(),
                            .reciprocal_deviation = x[7]});
  };
  // One column is its own mean: its output is the bias, and rounding noise apart from that.
  return scenario;
}

Scenario norm_in_place_scenario(DType dtype, std::int64_t rows, std::int64_t columns,
                                std::int64_t padding_unit) {
  return {fmt::format("norm in place {} {}x{}", name_of(dtype), rows, columns),
          {random_operand(1, dtype, rows, columns, 5 * padding_unit), random_operand(2, dtype, 1, columns),
           poisoned_operand(DType::fp32, 1, rows)},
          [](Kernels& kernels, const Views& x) {
            kernels.run(NormForward{.kind = NormKind::rms_norm,
                                    .epsilon = 1e-6F,
                                    .input = x[0],
                                    .weight = x[1],
                                    .out = x[0],
                                    .reciprocal_deviation = x[2]});
          }};
}

Scenario shared_norm_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding_unit,
                              bool unit_offset) {
  OperandMemory squares(DType::fp32, 1, rows), deviations(DType::fp32, 1, rows);
  OperandMemory projections(DType::fp32, 1, rows);
  const OperandMemory input = random_operand(1, dtype, rows, columns, 5 * padding_unit);
  const OperandMemory weight = random_operand(2, dtype, 1, columns);
  // A gradient along input · factor: dots of independent rows would be what is left of large sums that
  // cancel, and as inexact as those.
  OperandMemory out_gradient = random_operand(3, dtype, rows, columns, 2 * padding_unit);
  for (std::int64_t row = 0; row < rows; ++row) {
    squares.set(0, row, static_cast<float>(columns) * (1 + 0.01F * static_cast<float>(row % 50)));
    deviations.set(0, row, 0.5F + 0.01F * static_cast<float>(row % 50));
    double projection = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float along = input.at(row, c) * (weight.at(0, c) + (unit_offset ? 1.0F : 0.0F));
      out_gradient.set(row, c, out_gradient.at(row, c) + along);
      projection += along * out_gradient.at(row, c);
    }
    projections.set(0, row, static_cast<float>(3 * projection));
  }
  return {
      fmt::format("shared norm {} {}x{}{}", name_of(dtype), rows, columns, flag(unit_offset, "unit offset")),
      {input, weight, out_gradient, squares, deviations, projections, poisoned_operand(DType::fp32, 1, rows),
       poisoned_operand(DType::fp32, 1, rows), poisoned_operand(DType::fp32, 1, rows),
       poisoned_operand(dtype, rows, columns, padding_unit),
       poisoned_operand(dtype, rows, columns, 3 * padding_unit), random_operand(4, DType::fp32, 1, columns)},
      [=](Kernels& kernels, const Views& x) {
        kernels.run(RowDots{.a = x[0], .b = x[0], .out = x[6]});
        kernels.run(
            RowDeviation{.squares = x[3], .columns = 3 * columns, .epsilon = 1e-5F, .deviation = x[7]});
        kernels.run(RowDots{.a = x[0], .b = x[2], .weight = x[1], .unit_offset = unit_offset, .out = x[8]});
        kernels.run(NormForward{.kind = NormKind::rms_norm,
                                .epsilon = 1e-5F,
                                .input = x[0],
                                .weight = x[1],
                                .unit_offset = unit_offset,
                                .out = x[9],
                                .reciprocal_deviation = x[4],
                                .given_deviation = true});
        kernels.run(NormBackward{.kind = NormKind::rms_norm,
                                 .input = x[0],
                                 .weight = x[1],
                                 .unit_offset = unit_offset,
                                 .reciprocal_deviation = x[4],
                                 .out_gradient = x[2],
                                 .input_gradient = x[10],
                                 .weight_gradient = x[11],
                                 .projections = x[5],
                                 .whole_columns = 3 * columns});
      }};
}

Scenario norm_backward_scenario(NormKind kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                GradientPlace place, std::int64_t padding_unit, bool unit_offset,
                                NormGradients gradients) {
  const bool layer = kind == NormKind::layer_norm;
  Scenario scenario;
  scenario.name =
      fmt::format("{} backward {} {}x{} place {}{}{}{}", layer ? "layer_norm" : "rms_norm", name_of(dtype),
                  rows, columns, static_cast<int>(place), flag(unit_offset, "unit offset"),
                  flag(!gradients.weight, "no weight"), flag(!gradients.bias, "no bias"));
  OperandMemory reciprocal(DType::fp32, 1, rows);
  for (std::int64_t row = 0; row < rows; ++row)
    reciprocal.set(0, row, 0.5F + 0.01F * static_cast<float>(row % 50));
  scenario.operands = {random_operand(1, dtype, rows, columns, 5 * padding_unit),
                       random_operand(2, dtype, 1, columns),
                       random_operand(3, DType::fp32, 1, rows, 0, 0.1F),
                       reciprocal,
                       random_operand(4, dtype, rows, columns, 2 * padding_unit),
                       random_operand(5, dtype, rows, columns, 3 * padding_unit),
                       poisoned_operand(dtype, rows, columns, padding_unit),
                       random_operand(6, DType::fp32, 1, columns),
                       random_operand(7, DType::fp32, 1, columns)};
  if (place != GradientPlace::own)
    scenario.operands[6] = random_operand(8, dtype, rows, columns, padding_unit);
  scenario.call = [=](Kernels& kernels, const Views& x) {
    const Matrix target = place == GradientPlace::own           ? x[6]
                          : place == GradientPlace::over_addend ? x[5]
                                                                : x[4];
    kernels.run(NormBackward{.kind = kind,
                             .input = x[0],
                             .weight = x[1],
                             .unit_offset = unit_offset,
                             .mean = layer ? x[2] : Matrix(),
                             .reciprocal_deviation = x[3],
                             .out_gradient = x[4],
                             .addend = place == GradientPlace::own ? Matrix() : x[5],
                             .input_gradient = target,
                             .weight_gradient = gradients.weight ? x[7] : Matrix(),
                             .bias_gradient = layer && gradients.bias ? x[8] : Matrix()});
  };
  return scenario;
}

OperandMemory places_operand(const AttentionShape& shape, const Documents& documents) {
  std::vector<std::int32_t> places;
  std::size_t number = 0;
  const std::int64_t length = shape.context.ranks * shape.sequence;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    std::vector<std::int32_t> whole;
    for (std::int64_t place = 0; std::ssize(whole) < length; ++place) {
      if (place == documents[number % documents.size()]) place = 0, ++number;
      whole.push_back(static_cast<std::int32_t>(place));
    }
    for (std::int64_t t = 0; t < shape.sequence; ++t)
      places.push_back(whole[static_cast<std::size_t>(shape.queries().at(t))]);
  }
  return index_operand(places);
}

Scenario attention_scenario(const AttentionShape& shape, DType dtype, std::int64_t padding_unit,
                            const Documents& documents) {
  const std::int64_t rows = shape.batch * shape.sequence;
  Scenario scenario = {
      "attention " + describe(shape, dtype) + flag(!documents.empty(), "documents"),
      {random_operand(1, dtype, rows, fused_columns(shape), 3 * padding_unit),
       poisoned_operand(out_dtype(shape, dtype), rows, shape.heads * shape.head_dimension, padding_unit),
       poisoned_operand(DType::fp32, shape.batch * shape.heads, shape.sequence, 2 * padding_unit),
       random_operand(2, DType::fp32, rows, shape.heads * shape.head_dimension, 4 * padding_unit),
       random_operand(3, DType::fp32, shape.batch * shape.heads, shape.sequence, padding_unit)},
      [shape, documents](Kernels& kernels, const Views& x) {
        const Fused fused = split(x[0], shape);
        kernels.run(AttentionForward{.shape = shape,
                                     .query = fused.query,
                                     .key = fused.key,
                                     .value = fused.value,
                                     .out = x[1],
                                     .log_sum_exp = x[2],
                                     .before = shape.step > 0 ? x[3] : Matrix(),
                                     .log_sum_exp_before = shape.step > 0 ? x[4] : Matrix(),
                                     .places = places_at(x, 5, documents)});
      }};
  if (!documents.empty()) scenario.operands.push_back(places_operand(shape, documents));
  if (shape.context.ranks > 1)
    scenario.fp32_tolerance = scenario.tolerance(dtype);  // made of narrower numbers
  return scenario;
}

Scenario attention_backward_scenario(const AttentionShape& shape, DType dtype, std::int64_t padding_unit,
                                     const Documents& documents) {
  const std::int64_t rows = shape.batch * shape.sequence;
  Scenario scenario;
  scenario.name = "attention backward " + describe(shape, dtype) + flag(!documents.empty(), "documents");
  scenario.operands = {
      random_operand(1, dtype, rows, fused_columns(shape), 3 * padding_unit),
      OperandMemory(dtype, rows, shape.heads * shape.head_dimension, padding_unit),
      OperandMemory(DType::fp32, shape.batch * shape.heads, shape.sequence, 2 * padding_unit),
      random_operand(2, dtype, rows, shape.heads * shape.head_dimension, 4 * padding_unit),
      poisoned_operand(out_dtype(shape, dtype), rows, fused_columns(shape), 5 * padding_unit),
      random_operand(3, DType::fp32, rows, shape.heads * shape.head_dimension, padding_unit),
      random_operand(4, DType::fp32, shape.batch * shape.heads, shape.sequence, 2 * padding_unit)};
  if (!documents.empty()) scenario.operands.push_back(places_operand(shape, documents));
  // Gradients go wherever the fused matrix of gradients has their place. Differences of nearly equal numbers,
  // P ∘ (dP - D), and P rounded to bf16 for the matrix unit cost bf16 some digits.
  scenario.bf16_tolerance = 1.5e-2;
  if (shape.context.ranks > 1)
    scenario.fp32_tolerance = scenario.tolerance(dtype);  // made of narrower numbers
  const Fused forward = split(scenario.operands[0].view(), shape);
  run_on_reference(
      AttentionForward{.shape = shape,
                       .query = forward.query,
                       .key = forward.key,
                       .value = forward.value,
                       .out = scenario.operands[1].view(),
                       .log_sum_exp = scenario.operands[2].view(),
                       .before = shape.step > 0 ? scenario.operands[5].view() : Matrix(),
                       .log_sum_exp_before = shape.step > 0 ? scenario.operands[6].view() : Matrix(),
                       .places = documents.empty() ? Places() : indices_of(scenario.operands[7].view())});
  scenario.call = [shape, documents](Kernels& kernels, const Views& x) {
    const Fused fused = split(x[0], shape);
    const Fused gradient = split(x[4], shape);
    kernels.run(AttentionBackward{.shape = shape,
                                  .query = fused.query,
                                  .key = fused.key,
                                  .value = fused.value,
                                  .out = x[1],
                                  .log_sum_exp = x[2],
                                  .out_gradient = x[3],
                                  .query_gradient = gradient.query,
                                  .key_gradient = gradient.key,
                                  .value_gradient = gradient.value,
                                  .query_gradient_before = shape.step > 0 ? x[5] : Matrix(),
                                  .places = places_at(x, 7, documents)});
  };
  return scenario;
}

Scenario cached_attention_scenario(const AttentionShape& shape, DType dtype,
                                   const std::vector<std::int32_t>& lengths, std::int64_t padding_unit) {
  const std::int64_t rows = shape.batch * shape.sequence;
  const std::int64_t columns = shape.heads * shape.head_dimension;
  const std::int64_t kv_columns = shape.kv_heads * shape.head_dimension;
  return {"cached " + describe(shape, dtype),
          {random_operand(1, dtype, shape.batch, columns, 3 * padding_unit),
           random_operand(2, dtype, rows, kv_columns, padding_unit),
           random_operand(3, dtype, rows, kv_columns, 2 * padding_unit),
           poisoned_operand(dtype, shape.batch, columns, 4 * padding_unit), index_operand(lengths)},
          [shape](Kernels& kernels, const Views& x) {
            kernels.run(CachedAttention{.shape = shape,
                                        .lengths = indices_of(x[4]),
                                        .query = x[0],
                                        .key = x[1],
                                        .value = x[2],
                                        .out = x[3]});
          }};
}

Scenario rope_scenario(DType dtype, std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                       std::int64_t head_dimension, bool inverse, std::int64_t padding_unit,
                       const Documents& documents) {
  OperandMemory cosine(DType::fp32, sequence, head_dimension / 2);
  OperandMemory sine(DType::fp32, sequence, head_dimension / 2);
  for (std::int64_t t = 0; t < sequence; ++t) {
    for (std::int64_t i = 0; i < head_dimension / 2; ++i) {
      const float angle = static_cast<float>(t) / static_cast<float>(i + 1);
      cosine.set(t, i, std::cos(angle));
      sine.set(t, i, std::sin(angle));
    }
  }
  Scenario scenario = {
      fmt::format("rope {} {}x{} heads {} dimension {}{}{}", name_of(dtype), batch, sequence, heads,
                  head_dimension, flag(inverse, "inverse"), flag(!documents.empty(), "documents")),
      {random_operand(1, dtype, batch * sequence, heads * head_dimension, 3 * padding_unit), cosine, sine},
      [=](Kernels& kernels, const Views& x) {
        kernels.run(Rope{.x = x[0],
                         .sequence = sequence,
                         .head_dimension = head_dimension,
                         .cosine = x[1],
                         .sine = x[2],
                         .inverse = inverse,
                         .places = places_at(x, 3, documents)});
      }};
  if (!documents.empty())
    scenario.operands.push_back(places_operand({.batch = batch, .sequence = sequence}, documents));
  return scenario;
}

Scenario activation_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                             std::int64_t padding, bool in_place) {
  return {
      fmt::format("{} {} {}x{}{}", name_of(kind), name_of(dtype), rows, columns, flag(in_place, "in place")),
      {random_operand(1, dtype, rows, columns, padding, 3),
       in_place ? OperandMemory(dtype, 1, 1) : poisoned_operand(dtype, rows, columns, 2 * padding)},
      [=](Kernels& kernels, const Views& x) {
        kernels.run(ActivationForward{kind, x[0], in_place ? x[0] : x[1]});
      }};
}

Scenario activation_backward_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                      std::int64_t padding, ActivationGradientPlace place) {
  Scenario scenario;
  scenario.name = fmt::format("{} backward {} {}x{} place {}", name_of(kind), name_of(dtype), rows, columns,
                              static_cast<int>(place));
  scenario.operands = {random_operand(1, dtype, rows, columns, padding, 3),
                       random_operand(2, dtype, rows, columns, 2 * padding)};
  if (place == ActivationGradientPlace::own)
    scenario.operands.push_back(poisoned_operand(dtype, rows, columns, padding));
  scenario.call = [kind, place](Kernels& kernels, const Views& x) {
    const Matrix target = place == ActivationGradientPlace::own      ? x[2]
                          : place == ActivationGradientPlace::over_x ? x[0]
                                                                     : x[1];
    kernels.run(ActivationBackward{kind, x[0], x[1], target});
  };
  return scenario;
}

Scenario activation_again_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                   std::int64_t padding, ActivationGradientPlace place) {
  Scenario scenario = activation_backward_scenario(kind, dtype, rows, columns, padding, place);
  scenario.name += " and again";
  if (place == ActivationGradientPlace::own)
    scenario.operands.push_back(poisoned_operand(dtype, rows, columns, padding));
  scenario.call = [kind, place](Kernels& kernels, const Views& x) {
    const bool is_own = place == ActivationGradientPlace::own;
    const bool is_over_x = place == ActivationGradientPlace::over_x;
    kernels.run(ActivationBackward{.kind = kind,
                                   .x = x[0],
                                   .out_gradient = x[1],
                                   .x_gradient = x[is_own      ? 2
                                                   : is_over_x ? 0
                                                               : 1],
                                   .out = x[is_own      ? 3
                                            : is_over_x ? 1
                                                        : 0]});
  };
  return scenario;
}

Scenario gated_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                        std::int64_t padding) {
  return {fmt::format("gated {} {} {}x{}", name_of(kind), name_of(dtype), rows, columns),
          {random_operand(1, dtype, rows, 2 * columns, padding, 2),
           poisoned_operand(dtype, rows, columns, padding)},
          [kind](Kernels& kernels, const Views& x) {
            kernels.run(GatedForward{kind, x[0], x[1]});
          }};
}

Scenario gated_backward_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                                 std::int64_t padding, bool in_place) {
  Scenario scenario;
  scenario.name = fmt::format("gated backward {} {} {}x{}{}", name_of(kind), name_of(dtype), rows, columns,
                              flag(in_place, "in place"));
  scenario.operands = {random_operand(1, dtype, rows, 2 * columns, padding, 2),
                       random_operand(2, dtype, rows, columns, padding)};
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, rows, 2 * columns, padding));
  scenario.call = [kind, in_place](Kernels& kernels, const Views& x) {
    kernels.run(GatedBackward{kind, x[0], x[1], in_place ? x[0] : x[2]});
  };
  return scenario;
}

Scenario gated_again_scenario(Activation kind, DType dtype, std::int64_t rows, std::int64_t columns,
                              std::int64_t padding, bool in_place) {
  Scenario scenario = gated_backward_scenario(kind, dtype, rows, columns, padding, in_place);
  scenario.name += " and again";
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, rows, columns, padding));
  scenario.call = [kind, in_place](Kernels& kernels, const Views& x) {
    kernels.run(GatedBackward{.kind = kind,
                              .gate_up = x[0],
                              .out_gradient = x[1],
                              .gate_up_gradient = x[in_place ? 0 : 2],
                              .out = x[in_place ? 1 : 3]});
  };
  return scenario;
}

Scenario add_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                      bool in_place) {
  Scenario scenario;
  scenario.name = fmt::format("add {} {}x{}{}", name_of(dtype), rows, columns, flag(in_place, "in place"));
  scenario.operands = {random_operand(1, dtype, rows, columns, padding),
                       random_operand(2, dtype, rows, columns, 2 * padding)};
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, rows, columns, padding));
  scenario.call = [in_place](Kernels& kernels, const Views& x) {
    kernels.run(Addition{x[0], x[1], in_place ? x[1] : x[2]});
  };
  return scenario;
}

Scenario scale_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                        bool in_place) {
  Scenario scenario;
  scenario.name = fmt::format("scale {} {}x{}{}", name_of(dtype), rows, columns, flag(in_place, "in place"));
  scenario.operands = {random_operand(1, dtype, rows, columns, padding)};
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, rows, columns, 2 * padding));
  scenario.call = [in_place](Kernels& kernels, const Views& x) {
    kernels.run(Scale{x[0], in_place ? x[0] : x[1], 0.3F});
  };
  return scenario;
}

Scenario blend_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding,
                        bool in_place) {
  Scenario scenario;
  scenario.name = fmt::format("blend {} {}x{}{}", name_of(dtype), rows, columns, flag(in_place, "in place"));
  scenario.operands = {random_operand(1, dtype, rows, columns, padding),
                       random_operand(2, DType::fp32, rows, columns, 2 * padding)};
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, rows, columns, 3 * padding));
  scenario.call = [in_place](Kernels& kernels, const Views& x) {
    kernels.run(Blend{x[0], x[1], 3.5F, -0.3F, in_place ? x[0] : x[2]});
  };
  return scenario;
}

Scenario cast_scenario(DType from, DType to, std::int64_t rows, std::int64_t columns) {
  return {fmt::format("cast {} to {} {}x{}", name_of(from), name_of(to), rows, columns),
          {random_operand(1, from, rows, columns), poisoned_operand(to, rows, columns)},
          [](Kernels& kernels, const Views& x) {
            kernels.run(Cast{x[0], x[1]});
          }};
}

Scenario zero_scenario(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t padding) {
  return {fmt::format("zero {} {}x{}", name_of(dtype), rows, columns),
          {poisoned_operand(dtype, rows, columns, padding)},
          [](Kernels& kernels, const Views& x) { kernels.run(Zero{x[0]}); }};
}

Scenario copy_rows_scenario(DType to, std::int64_t columns, std::int64_t padding, DType from) {
  const std::vector<std::int32_t> rows = {0, 3, 4, 10, kNoRow, kNoRow};
  return {fmt::format("copy rows to {} of {} {}", name_of(to), columns, name_of(from)),
          {random_operand(1, from, 11, columns, padding), index_operand(rows),
           poisoned_operand(to, static_cast<std::int64_t>(rows.size()), columns, 2 * padding)},
          [](Kernels& kernels, const Views& x) {
            kernels.run(RowCopy{x[0], indices_of(x[1]), x[2]});
          }};
}

Scenario sum_rows_scenario(DType dtype, std::int64_t columns, std::int64_t first, std::int64_t elements) {
  const std::vector<std::int32_t> rows = {1,  3,      4, 9,      kNoRow, 0,      3,     9,
                                          10, kNoRow, 3, kNoRow, kNoRow, kNoRow, kNoRow};
  return {fmt::format("sum rows {} of {}, {} from {}", name_of(dtype), columns, elements, first),
          {random_operand(1, dtype, static_cast<std::int64_t>(rows.size()), columns), index_operand(rows),
           poisoned_operand(dtype, 1, elements)},
          [first](Kernels& kernels, const Views& x) {
            kernels.run(
                RowSum{.ranks = 3, .rows = indices_of(x[1]), .values = x[0], .first = first, .out = x[2]});
          }};
}

Scenario embedding_scenario(DType dtype, std::int64_t batch, std::int64_t sequence, std::int64_t columns,
                            bool positions, std::int64_t padding_unit, FirstRow first_row,
                            const Documents& documents) {
  constexpr std::int64_t kVocabulary = 11;
  const std::int64_t tokens = first_row ? 2 * kVocabulary : kVocabulary;
  Scenario scenario = {fmt::format("embedding {} {}x{}x{}{}{}{}", name_of(dtype), batch, sequence, columns,
                                   flag(positions, "positions"), flag(first_row.has_value(), "part"),
                                   flag(!documents.empty(), "documents")),
                       {random_operand(1, dtype, kVocabulary, columns, 2 * padding_unit),
                        random_operand(2, dtype, sequence + 3, columns, padding_unit),
                        poisoned_operand(dtype, batch * sequence, columns, 3 * padding_unit),
                        index_operand(tokens_below(tokens, batch * sequence))},
                       [=](Kernels& kernels, const Views& x) {
                         kernels.run(EmbeddingForward{indices_of(x[3]), x[0], positions ? x[1] : Matrix(),
                                                      sequence, x[2], first_row, places_at(x, 4, documents)});
                       }};
  if (!documents.empty())
    scenario.operands.push_back(places_operand({.batch = batch, .sequence = sequence}, documents));
  return scenario;
}

Scenario embedding_backward_scenario(DType dtype, std::int64_t batch, std::int64_t sequence,
                                     std::int64_t columns, bool positions, std::int64_t padding_unit,
                                     std::int32_t padding_token, bool table, FirstRow first_row,
                                     const Documents& documents) {
  constexpr std::int64_t kVocabulary = 11;
  const std::int64_t tokens = first_row ? 2 * kVocabulary : kVocabulary;
  Scenario scenario = {
      fmt::format("embedding backward {} {}x{}x{}{}{}{}{}{}", name_of(dtype), batch, sequence, columns,
                  flag(positions, "positions"), flag(padding_token != kNoRow, "padding"),
                  flag(!table, "no table"), flag(first_row.has_value(), "part"),
                  flag(!documents.empty(), "documents")),
      {random_operand(1, dtype, batch * sequence, columns, 2 * padding_unit),
       random_operand(2, DType::fp32, kVocabulary, columns, padding_unit),
       random_operand(3, DType::fp32, sequence + 3, columns),
       index_operand(tokens_below(tokens, batch * sequence))},
      [=](Kernels& kernels, const Views& x) {
        kernels.run(EmbeddingBackward{.tokens = indices_of(x[3]),
                                      .sequence = sequence,
                                      .out_gradient = x[0],
                                      .table_gradient = table ? x[1] : Matrix(),
                                      .positions_gradient = positions ? x[2] : Matrix(),
                                      .padding_token = padding_token,
                                      .first_row = first_row,
                                      .places = places_at(x, 4, documents)});
      }};
  if (!documents.empty())
    scenario.operands.push_back(places_operand({.batch = batch, .sequence = sequence}, documents));
  return scenario;
}

namespace {

/// Some rows have none.
std::vector<std::int32_t> targets_below(std::int64_t vocabulary, std::int64_t rows) {
  std::vector<std::int32_t> targets = tokens_below(vocabulary, rows);
  for (std::size_t row = 1; row < targets.size(); row += 3) targets[row] = kNoTarget;
  return targets;
}

}  // namespace

Scenario cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary, std::int64_t padding,
                                bool scaled, float soft_cap) {
  return {fmt::format("cross entropy {} {}x{}{} cap {}", name_of(dtype), rows, vocabulary,
                      flag(scaled, "scaled"), soft_cap),
          {random_operand(1, dtype, rows, vocabulary, padding, 4), poisoned_operand(DType::fp32, 1, rows),
           index_operand(targets_below(vocabulary, rows)), random_operand(2, DType::fp32, 1, 1, 0, 64)},
          [=](Kernels& kernels, const Views& x) {
            kernels.run(CrossEntropy{.logits = x[0],
                                     .targets = indices_of(x[2]),
                                     .losses = x[1],
                                     .gradient_scale = 0.125F,
                                     .loss_scale = scaled ? x[3].row<const float>(0) : nullptr,
                                     .soft_cap = soft_cap});
          }};
}

Scenario penalised_cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary) {
  Scenario scenario = cross_entropy_scenario(dtype, rows, vocabulary, 0);
  scenario.name += " penalised";
  scenario.call = [](Kernels& kernels, const Views& x) {
    kernels.run(CrossEntropy{.logits = x[0],
                             .targets = indices_of(x[2]),
                             .losses = x[1],
                             .gradient_scale = 0.125F,
                             .penalty = x[3].row<const float>(0)});
  };
  return scenario;
}

Scenario parts_of_cross_entropy_scenario(DType dtype, std::int64_t rows, std::int64_t vocabulary,
                                         std::int64_t padding, float soft_cap, bool penalised) {
  constexpr std::int64_t kParts = 3;
  Scenario scenario = cross_entropy_scenario(dtype, rows, vocabulary, padding, true, soft_cap);
  scenario.name = fmt::format("parts of {}{}", scenario.name, flag(penalised, "penalised"));
  scenario.operands.push_back(poisoned_operand(DType::fp32, rows, kParts * kSoftmaxStatistics, padding));
  scenario.call = [=](Kernels& kernels, const Views& x) {
    const auto begin = [&](std::int64_t part) { return part * vocabulary / kParts; };
    const auto logits = [&](std::int64_t part) {
      return x[0].column_slice(begin(part), begin(part + 1) - begin(part));
    };
    for (std::int64_t part = 0; part < kParts; ++part)
      kernels.run(
          SoftmaxPart{.logits = logits(part),
                      .targets = indices_of(x[2]),
                      .first = begin(part),
                      .soft_cap = soft_cap,
                      .statistics = x[4].column_slice(part * kSoftmaxStatistics, kSoftmaxStatistics)});
    kernels.run(PartsLoss{
        .statistics = x[4], .losses = x[1], .penalty = penalised ? x[3].row<const float>(0) : nullptr});
    for (std::int64_t part = 0; part < kParts; ++part)
      kernels.run(PartsGradient{.logits = logits(part),
                                .targets = indices_of(x[2]),
                                .first = begin(part),
                                .statistics = x[4],
                                .gradient_scale = 0.125F,
                                .loss_scale = x[3].row<const float>(0),
                                .soft_cap = soft_cap});
  };
  return scenario;
}

}  // namespace strata
