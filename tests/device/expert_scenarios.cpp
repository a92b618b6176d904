#include "tests/device/expert_scenarios.h"

#include <fmt/format.h>

#include <numeric>

#include "engine/device/expert_calls.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {
namespace {

using Views = std::vector<Matrix>;

std::span<std::int32_t> writable_indices(const Matrix& index_operand) {
  return {static_cast<std::int32_t*>(index_operand.data), static_cast<std::size_t>(index_operand.columns)};
}

OperandMemory poisoned_indices(std::int64_t count) {
  return poisoned_operand(DType::fp32, 1, count);
}

/// Each of [0, count) once, neighbours far from each other.
OperandMemory permutation(std::int64_t count) {
  std::int64_t step = 3;
  while (std::gcd(step, count) != 1) ++step;
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < count; ++i)
    places.push_back(static_cast<std::int32_t>((i * step + 1) % count));
  return index_operand(places);
}

std::int64_t rows_of(const std::vector<std::int32_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

OperandMemory offsets_of(const std::vector<std::int32_t>& sizes) {
  std::vector<std::int32_t> offsets = {0};
  for (const std::int32_t size : sizes) offsets.push_back(offsets.back() + size);
  return index_operand(offsets);
}

}  // namespace

Scenario route_scenario(DType dtype, std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                        bool normalise, std::int64_t padding) {
  return {fmt::format("route {} {} tokens to {} of {}{}", name_of(dtype), tokens, top_k, experts,
                      flag(normalise, "normalised")),
          {random_operand(1, dtype, tokens, experts, padding, 2),
           poisoned_operand(DType::fp32, tokens, experts, 2 * padding), poisoned_indices(tokens * top_k),
           poisoned_operand(DType::fp32, tokens, top_k, padding)},
          [normalise](Kernels& kernels, const Views& x) {
            kernels.run(RouteForward{.normalise = normalise,
                                     .logits = x[0],
                                     .probabilities = x[1],
                                     .experts = writable_indices(x[2]),
                                     .weights = x[3]});
          }};
}

Scenario route_backward_scenario(DType dtype, std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                 bool normalise, bool balance, std::int64_t padding) {
  Scenario scenario;
  scenario.name = fmt::format("route backward {} {} tokens to {} of {}{}{}", name_of(dtype), tokens, top_k,
                              experts, flag(normalise, "normalised"), flag(balance, "balanced"));
  scenario.operands = {OperandMemory(DType::fp32, tokens, experts, padding),
                       OperandMemory(DType::fp32, 1, tokens * top_k),
                       OperandMemory(DType::fp32, tokens, top_k, 2 * padding),
                       random_operand(2, DType::fp32, tokens, top_k, padding),
                       random_operand(3, DType::fp32, 1, experts),
                       poisoned_operand(dtype, tokens, experts, 3 * padding)};
  OperandMemory logits = random_operand(1, DType::fp32, tokens, experts, 0, 2);
  run_on_reference(RouteForward{.normalise = normalise,
                                .logits = logits.view(),
                                .probabilities = scenario.operands[0].view(),
                                .experts = writable_indices(scenario.operands[1].view()),
                                .weights = scenario.operands[2].view()});
  scenario.call = [=](Kernels& kernels, const Views& x) {
    kernels.run(RouteBackward{.normalise = normalise,
                              .probabilities = x[0],
                              .experts = indices_of(x[1]),
                              .weights = x[2],
                              .weights_gradient = x[3],
                              .balance = balance ? x[4] : Matrix(),
                              .logits_gradient = x[5]});
  };
  return scenario;
}

Scenario load_balance_scenario(std::int64_t experts, bool scaled, BalanceOutputs outputs) {
  return {fmt::format("load balance of {}{} outputs {}", experts, flag(scaled, "scaled"),
                      static_cast<int>(outputs)),
          {random_operand(1, DType::fp32, 1, experts, 0, 100),
           random_operand(2, DType::fp32, 1, experts, 0, 50), random_operand(3, DType::fp32, 1, 1, 0, 64),
           outputs == BalanceOutputs::gradient ? random_operand(4, DType::fp32, 1, 1)
                                               : poisoned_operand(DType::fp32, 1, 1),
           outputs == BalanceOutputs::loss ? random_operand(5, DType::fp32, 1, experts)
                                           : poisoned_operand(DType::fp32, 1, experts)},
          [=](Kernels& kernels, const Views& x) {
            kernels.run(LoadBalance{.counts = x[0],
                                    .probability_sums = x[1],
                                    .rows = 300,
                                    .coefficient = 0.02F,
                                    .loss_scale = scaled ? x[2].row<const float>(0) : nullptr,
                                    .loss = outputs == BalanceOutputs::gradient ? Matrix() : x[3],
                                    .balance = outputs == BalanceOutputs::loss ? Matrix() : x[4]});
          }};
}

Scenario group_rows_scenario(std::int64_t rows, std::int64_t groups, std::int64_t copies) {
  std::vector<std::int32_t> group_of_row;
  for (std::int64_t i = 0; i < rows; ++i)
    group_of_row.push_back(static_cast<std::int32_t>((i * i + 3 * i) % groups));
  return {fmt::format("group {} rows by {}, {} copies", rows, groups, copies),
          {index_operand(group_of_row), poisoned_indices(rows), poisoned_indices(rows),
           poisoned_indices(groups + 1)},
          [=](Kernels& kernels, const Views& x) {
            kernels.run(GroupRows{.groups = indices_of(x[0]),
                                  .copies = copies,
                                  .sources = writable_indices(x[1]),
                                  .places = writable_indices(x[2]),
                                  .offsets = writable_indices(x[3])});
          }};
}

Scenario count_rows_scenario(const std::vector<std::int32_t>& sizes) {
  return {
      fmt::format("count rows of {} groups", sizes.size()),
      {offsets_of(sizes), random_operand(1, DType::fp32, 1, static_cast<std::int64_t>(sizes.size()), 0, 100)},
      [](Kernels& kernels, const Views& x) {
        kernels.run(CountRows{indices_of(x[0]), x[1]});
      }};
}

Scenario combine_rows_scenario(DType dtype, std::int64_t tokens, std::int64_t slots, std::int64_t columns,
                               bool weights, std::int64_t padding) {
  return {fmt::format("combine {} {}x{} rows of {}{}", name_of(dtype), tokens, slots, columns,
                      flag(weights, "weighted")),
          {random_operand(1, dtype, tokens * slots, columns, padding), permutation(tokens * slots),
           random_operand(2, DType::fp32, tokens, slots, padding),
           poisoned_operand(dtype, tokens, columns, 2 * padding)},
          [weights](Kernels& kernels, const Views& x) {
            kernels.run(CombineRows{
                .x = x[0], .places = indices_of(x[1]), .weights = weights ? x[2] : Matrix(), .out = x[3]});
          }};
}

Scenario combine_rows_backward_scenario(DType dtype, std::int64_t tokens, std::int64_t slots,
                                        std::int64_t columns, bool in_place, std::int64_t padding) {
  Scenario scenario;
  scenario.name = fmt::format("combine backward {} {}x{} rows of {}{}", name_of(dtype), tokens, slots,
                              columns, flag(in_place, "in place"));
  scenario.operands = {random_operand(1, dtype, tokens * slots, columns, padding),
                       permutation(tokens * slots), random_operand(2, DType::fp32, tokens, slots, padding),
                       random_operand(3, dtype, tokens, columns, 2 * padding),
                       poisoned_operand(DType::fp32, tokens, slots, padding)};
  if (!in_place) scenario.operands.push_back(poisoned_operand(dtype, tokens * slots, columns, 3 * padding));
  scenario.call = [in_place](Kernels& kernels, const Views& x) {
    kernels.run(CombineRowsBackward{.x = x[0],
                                    .places = indices_of(x[1]),
                                    .weights = x[2],
                                    .out_gradient = x[3],
                                    .x_gradient = in_place ? x[0] : x[5],
                                    .weights_gradient = x[4]});
  };
  return scenario;
}

Scenario grouped_product_scenario(DType dtype, const std::vector<std::int32_t>& sizes, std::int64_t k,
                                  std::int64_t n, bool transpose_b, std::int64_t padding) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  return {fmt::format("grouped product {} {} rows in {} groups, {} to {}{}", name_of(dtype), rows_of(sizes),
                      groups, k, n, flag(transpose_b, "b^T")),
          {offsets_of(sizes), random_operand(1, dtype, rows_of(sizes), k, padding),
           transpose_b ? random_operand(2, dtype, groups * n, k, 2 * padding)
                       : random_operand(2, dtype, groups * k, n, 2 * padding),
           poisoned_operand(dtype, rows_of(sizes), n, 3 * padding)},
          [transpose_b](Kernels& kernels, const Views& x) {
            kernels.run(GroupedProduct{
                .offsets = indices_of(x[0]), .a = x[1], .b = x[2], .transpose_b = transpose_b, .out = x[3]});
          }};
}

Scenario grouped_gradient_scenario(DType dtype, const std::vector<std::int32_t>& sizes, std::int64_t m,
                                   std::int64_t n, std::int64_t padding) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  return {fmt::format("grouped weight gradient {} {} rows in {} groups, {}x{}", name_of(dtype),
                      rows_of(sizes), groups, m, n),
          {offsets_of(sizes), random_operand(1, dtype, rows_of(sizes), m, padding),
           random_operand(2, dtype, rows_of(sizes), n, 2 * padding),
           random_operand(3, DType::fp32, groups * m, n, padding)},
          [](Kernels& kernels, const Views& x) {
            kernels.run(
                GroupedWeightGradient{.offsets = indices_of(x[0]), .a = x[1], .b = x[2], .gradient = x[3]});
          }};
}

}  // namespace strata
