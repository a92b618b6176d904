#include "tests/generate/tiny_models.h"

#include <algorithm>

#include "engine/device/cpu/cpu_device.h"

namespace strata::test {
namespace {

/// FNV-1a (Fowler, Noll, Vo).
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

/// SplitMix64 (Steele et al. 2014).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
  return z ^ (z >> 31U);
}

}  // namespace

ReadParameters made_parameters(const Model& model, std::uint64_t seed) {
  return [&model, seed](std::size_t unit, FlatRange range, std::span<float> out) {
    std::ranges::fill(out, 0.0F);
    for (const TensorPiece& piece : pieces_in(model.units[unit], range)) {
      const TensorSpec& tensor = *piece.tensor;
      const bool is_matrix = tensor.hf_shape.size() >= 2;
      const bool is_factor =
          tensor.hf_name.ends_with("weight") && !model.architecture.model_type.starts_with("gemma");
      const float around = !is_matrix && is_factor ? 1 : 0;
      const std::uint64_t start = hash_of(tensor.hf_name) + seed;
      for (std::int64_t i = piece.first; i < piece.last; ++i) {
        const std::uint64_t z = mixed(start + static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15);
        const float uniform = static_cast<float>(z >> 40U) / 8388608.0F - 1;
        out[static_cast<std::size_t>(piece.at + i - piece.first)] =
            around + uniform * (is_matrix ? 0.5F : 0.25F);
      }
    }
  };
}

std::vector<TokenIds> ids_of(const std::vector<Continuation>& continuations) {
  std::vector<TokenIds> ids;
  ids.reserve(continuations.size());
  for (const Continuation& continuation : continuations) ids.push_back(continuation.ids);
  return ids;
}

std::vector<TokenIds> greedy_ids(const Model& model, const ReadParameters& read,
                                 const std::vector<TokenIds>& prompts, std::int64_t tokens) {
  CpuDevice device({.threads = 2, .link = {}});
  GenerationOptions options;
  options.max_tokens = tokens;
  return ids_of(Generator(device, model, read, prompts, options).run());
}

}  // namespace strata::test
