#include "engine/model/initialize.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/hash.h"
#include "base/normals.h"
#include "base/random.h"
#include "engine/model/model.h"
#include "engine/model/weight_norms.h"

namespace strata {
namespace {

float deviation(const Architecture& architecture, Init init) {
  const double range = architecture.initializer_range;
  if (init == Init::normal) return static_cast<float>(range);
  return static_cast<float>(range / std::sqrt(2.0 * static_cast<double>(architecture.layers)));
}

/// Zeroes what `out`, elements from `first` on, has of a row.
void clear_row(std::int64_t row, std::int64_t columns, std::int64_t first, std::span<float> out) {
  const std::int64_t begin = std::clamp(row * columns - first, std::int64_t{0}, std::ssize(out) + 0L);
  const std::int64_t end = std::clamp((row + 1) * columns - first, std::int64_t{0}, std::ssize(out) + 0L);
  std::fill(out.begin() + begin, out.begin() + end, 0.0F);
}

/// Uniform in (-1, 1) / sqrt(columns).
void fill_uniform(const TensorSpec& tensor, std::uint64_t seed, std::int64_t first, std::span<float> out) {
  const double bound = 1 / std::sqrt(static_cast<double>(tensor.hf_shape.back()));
  const CounterRandom random(seed, hash_text(tensor.hf_name));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t word = random.words(static_cast<std::uint64_t>(first) + i).front();
    out[i] = static_cast<float>(bound * ((2.0 * word + 1) * 0x1p-32 - 1));
  }
}

}  // namespace

void initialize_tensor(const Architecture& architecture, const TensorSpec& tensor, std::uint64_t seed,
                       std::int64_t first, std::span<float> out) {
  assert(!has_norms(tensor) && first >= 0 && first + std::ssize(out) <= tensor.whole_elements());
  if (tensor.init == Init::zeros || tensor.init == Init::ones) {
    std::fill(out.begin(), out.end(), tensor.init == Init::ones ? 1.0F : 0.0F);
    return;
  }
  if (tensor.init == Init::kaiming_uniform) return fill_uniform(tensor, seed, first, out);
  scaled_normals(seed, hash_text(tensor.hf_name), static_cast<std::uint64_t>(first),
                 deviation(architecture, tensor.init), out);
  if (tensor.zero_row >= 0) clear_row(tensor.zero_row, tensor.hf_shape.back(), first, out);
}

}  // namespace strata
