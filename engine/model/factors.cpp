#include "engine/model/factors.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace strata {

std::vector<TensorSpec> factors_of(const TensorSpec& tensor, UpdateRule rule) {
  std::vector<TensorSpec> factors;
  const auto add = [&](std::string_view name, std::int64_t elements) {
    const std::int64_t offset = factors.empty() ? 0 : factors.back().offset + factors.back().elements;
    factors.push_back({.hf_name = fmt::format("{}.{}", tensor.hf_name, name),
                       .hf_shape = {elements},
                       .flat = Flat::factors,
                       .offset = offset,
                       .elements = elements,
                       .policy = tensor.policy,
                       .whole_offset = offset});
  };
  const std::int64_t rows = tensor.hf_shape.front();  // a vector's elements, too
  switch (rule) {
    case UpdateRule::normuon:
      add("second_momentum_buffer", rows);
      break;
    case UpdateRule::adagrad_rowwise:
      add("sum", rows);
      break;
    case UpdateRule::adafactor:
      if (tensor.hf_shape.size() == 1) {
        add("exp_avg_sq", rows);
      } else {
        add("exp_avg_sq_row", rows);
        add("exp_avg_sq_col", tensor.hf_shape.back());
      }
      break;
    default:
      break;
  }
  return factors;
}

void find_factors(Unit& unit, const std::vector<UpdatePolicy>& policies) {
  unit.factors.clear();
  unit.factor_elements = 0;
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat != Flat::trained) continue;
    for (TensorSpec& factor : factors_of(tensor, policies[tensor.policy].rule)) {
      factor.offset = factor.whole_offset = unit.factor_elements;
      unit.factor_elements += factor.elements;
      unit.factors.push_back(std::move(factor));
    }
  }
}

}  // namespace strata
