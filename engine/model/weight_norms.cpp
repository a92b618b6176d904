#include "engine/model/weight_norms.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "base/nth.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/model.h"

namespace strata {

bool has_norms(const TensorSpec& tensor) {
  return tensor.init == Init::row_norms || tensor.init == Init::column_norms;
}

void fill_norms(const Unit& unit, const TensorSpec& tensor, const ReadTensor& read, std::int64_t first,
                std::span<float> out) {
  constexpr std::int64_t kStretch = 256 * 1024;
  const TensorSpec& weight = adapted_weight(unit, tensor);
  const bool is_of_rows = tensor.init == Init::row_norms;
  const std::int64_t columns = weight.hf_shape.back(), count = std::ssize(out);
  const std::int64_t begin = is_of_rows ? first * columns : 0;
  const std::int64_t end = is_of_rows ? (first + count) * columns : weight.whole_elements();
  std::vector<double> squares(out.size());
  auto values = sized<std::vector<float>>(std::min(kStretch, end - begin));
  for (std::int64_t at = begin; at < end; at += kStretch) {
    const std::span<float> stretch =
        std::span(values).first(static_cast<std::size_t>(std::min(kStretch, end - at)));
    read(weight, at, stretch);
    for (std::int64_t i = 0; i < std::ssize(stretch); ++i) {
      const std::int64_t number = (is_of_rows ? (at + i) / columns : (at + i) % columns) - first;
      const double value = nth(stretch, i);
      if (number >= 0 && number < count) nth(squares, number) += value * value;
    }
  }
  std::ranges::transform(squares, out.begin(),
                         [](double square) { return static_cast<float>(std::sqrt(square)); });
}

void fill_unit(const Unit& unit, FlatRange range, const ReadTensor& read, const ReadTensor& weights,
               std::span<float> out) {
  assert(std::ssize(out) == range.count);
  std::ranges::fill(out, 0.0F);
  for (const TensorRun& run : runs_in(unit, range)) {
    const std::span<float> part = slice(out, run.at, run.count());
    if (weights && has_norms(*run.tensor)) {
      fill_norms(unit, *run.tensor, weights, run.first, part);
    } else {
      read(*run.tensor, run.first, part);
    }
  }
}

}  // namespace strata
