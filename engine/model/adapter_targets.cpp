#include "engine/model/adapter_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/adapter_section.h"
#include "engine/config/choices.h"
#include "engine/model/graph/adapters.h"
#include "engine/model/name_patterns.h"

namespace strata {

bool AdapterTargets::is_target(const std::string& layer) {
  bool found = false;
  for (std::size_t i = 0; i < adapter_.targets.size(); ++i) {
    const std::string& target = adapter_.targets[i];
    if (target != AdapterSection::kAllLinear && !matches(target, layer) && !matches("*." + target, layer))
      continue;
    found = is_used_[i] = true;
  }
  return found;
}

UnitBuilder::Built AdapterTargets::adapt(UnitBuilder::Built block) {
  const std::vector<bool> is_linear = find_linear_weights(block);
  std::vector<std::optional<LowRankForm>> low_ranks(is_linear.size());
  for (std::size_t i = 0; i < is_linear.size(); ++i) {
    if (!is_linear[i]) continue;
    const std::string layer = layer_of(block.unit.tensors[i].hf_name);
    layers_.insert(layer.substr(layer.rfind('.') + 1));
    if (!is_target(layer)) continue;
    const AdapterPatterns::Values values = patterns_.of(layer);
    low_ranks[i] = {.rank = values.rank, .scale = adapter_scale(adapter_.type, values)};
  }
  if (std::ranges::none_of(low_ranks, [](const auto& form) { return form.has_value(); })) return block;
  return strata::adapt(std::move(block), low_ranks,
                       {.dropout = adapter_.dropout, .has_magnitudes = adapter_.type == AdapterType::dora});
}

void AdapterTargets::check() const {
  const auto unused = std::ranges::find(is_used_, false);
  if (unused == is_used_.end()) return patterns_.check();
  throw ConfigError(fmt::format(
      "adapter.targets: '{}' is no linear layer of the model's blocks that may have an adapter; those are {}",
      nth(adapter_.targets, unused - is_used_.begin()), fmt::join(layers_, ", ")));
}

namespace {

/// As a run file says it.
template <typename T>
std::string described(const ValuesByPattern<T>& values) {
  std::vector<std::string> entries;
  entries.reserve(values.size());
  for (const auto& [pattern, value] : values) entries.push_back(fmt::format("'{}': {}", pattern, value));
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

}  // namespace

std::string adapter_difference(const AdapterSection& stored, const AdapterSection& wanted) {
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
    if (difference.empty())
      difference = differ("rank_pattern", described(stored.rank_pattern), described(wanted.rank_pattern));
    if (difference.empty())
      difference = differ("alpha_pattern", described(stored.alpha_pattern), described(wanted.alpha_pattern));
  }
  return difference;
}

}  // namespace strata
