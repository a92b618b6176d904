#include "engine/model/adapter_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/config/words.h"
#include "engine/graph/adapters.h"
#include "engine/model/name_patterns.h"

namespace strata {

double adapter_scale(const RunConfig::AdapterSection& adapter) {
  const auto rank = static_cast<double>(adapter.rank);
  return adapter.alpha / (adapter.type == AdapterType::rslora ? std::sqrt(rank) : rank);
}

bool AdapterTargets::is_target(const std::string& layer) {
  bool found = false;
  for (std::size_t i = 0; i < adapter_.targets.size(); ++i) {
    const std::string& target = adapter_.targets[i];
    if (target != RunConfig::AdapterSection::kAllLinear && !matches(target, layer) &&
        !matches("*." + target, layer))
      continue;
    found = is_used_[i] = true;
  }
  return found;
}

UnitBuilder::Built AdapterTargets::adapt(UnitBuilder::Built block) {
  std::vector<bool> is_adapted = find_linear_weights(block);
  for (std::size_t i = 0; i < is_adapted.size(); ++i) {
    if (!is_adapted[i]) continue;
    const std::string layer = layer_of(block.unit.tensors[i].hf_name);
    layers_.insert(layer.substr(layer.rfind('.') + 1));
    is_adapted[i] = is_target(layer);
  }
  if (std::ranges::find(is_adapted, true) == is_adapted.end()) return block;
  return strata::adapt(std::move(block), is_adapted,
                       {.rank = adapter_.rank,
                        .scale = adapter_scale(adapter_),
                        .dropout = adapter_.dropout,
                        .has_magnitudes = adapter_.type == AdapterType::dora});
}

void AdapterTargets::check() const {
  const auto unused = std::ranges::find(is_used_, false);
  if (unused == is_used_.end()) return;
  throw ConfigError(fmt::format(
      "adapter.targets: '{}' is no linear layer of the model's blocks that may have an adapter; those are {}",
      adapter_.targets[static_cast<std::size_t>(unused - is_used_.begin())], fmt::join(layers_, ", ")));
}

std::string adapter_difference(const RunConfig::AdapterSection& stored,
                               const RunConfig::AdapterSection& wanted) {
  const auto differ = [](const char* key, const auto& a, const auto& b) {
    return a == b ? std::string() : fmt::format("adapter.{} {} there, {} here", key, a, b);
  };
  std::string difference = differ("type", word_of(stored.type), word_of(wanted.type));
  if (difference.empty() && stored.type != AdapterType::none) {
    difference = differ("rank", stored.rank, wanted.rank);
    if (difference.empty()) difference = differ("alpha", stored.alpha, wanted.alpha);
    if (difference.empty())
      difference = differ("targets", fmt::to_string(fmt::join(stored.targets, ", ")),
                          fmt::to_string(fmt::join(wanted.targets, ", ")));
  }
  return difference;
}

}  // namespace strata
