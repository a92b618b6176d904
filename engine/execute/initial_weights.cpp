#include "engine/execute/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "engine/model/initialize.h"

namespace strata {

InitialWeights::InitialWeights(const RunConfig& config, const Model& model) : config_(config), model_(model) {
  if (!config.model.path.empty()) folder_.emplace(config.model.path, model);
  if (model.adapts() && !config.adapter.path.empty()) adapters_.emplace(config.adapter.path, model);
}

void InitialWeights::read(const Unit& unit, FlatRange range, std::span<float> out) const {
  if (!folder_ && !adapters_)
    return initialize_unit(model_.architecture, unit, config_.train.seed, range, out);
  std::ranges::fill(out, 0.0F);
  for (const TensorRun& run : runs_in(unit, range)) {
    read_tensor(*run.tensor, run.first,
                out.subspan(static_cast<std::size_t>(run.at), static_cast<std::size_t>(run.count())));
  }
}

void InitialWeights::read_tensor(const TensorSpec& tensor, std::int64_t first, std::span<float> out) const {
  if (tensor.is_adapter && adapters_) {
    adapters_->read_tensor(tensor.hf_name, first, out);
  } else if (!tensor.is_adapter && folder_) {
    folder_->read_tensor(tensor.hf_name, first, out);
  } else {
    initialize_tensor(model_.architecture, tensor, config_.train.seed, first, out);
  }
}

std::string InitialWeights::hash_of_samples() const {
  if (!folder_ && !adapters_) return "";
  constexpr std::int64_t kSamples = 256;
  StreamingHash hash;
  for (const Unit& unit : model_.units) {
    for (const Flat flat : {Flat::trained, Flat::frozen}) {
      const std::int64_t all = unit.elements_of(flat), count = std::min(kSamples, all);
      std::vector<float> weights(static_cast<std::size_t>(count));
      for (const std::int64_t first : {std::int64_t{0}, (all - count) / 2}) {
        read(unit, {.first = first, .count = count, .flat = flat}, weights);
        hash.update(std::as_bytes(std::span(weights)));
      }
    }
  }
  return hex(hash.digest());
}

std::string InitialWeights::description() const {
  std::string text = folder_ ? "weights from " + config_.model.path
                             : fmt::format("random weights, seed {}", config_.train.seed);
  if (adapters_) return text + ", adapters from " + config_.adapter.path;
  return model_.adapts() && folder_ ? text + ", random adapters" : text;
}

}  // namespace strata
