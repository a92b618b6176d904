#include "engine/model/freeze_patterns.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"

namespace strata {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

std::vector<bool> FreezePatterns::find_frozen(const Unit& unit) {
  std::vector<bool> frozen(unit.tensors.size(), false);
  for (std::size_t p = 0; p < patterns_.size(); ++p) {
    for (std::size_t t = 0; t < frozen.size(); ++t) {
      if (!matches(patterns_[p], unit.tensors[t].hf_name)) continue;
      frozen[t] = is_used_[p] = true;
    }
  }
  return frozen;
}

void FreezePatterns::check(const Model& model) const {
  for (std::size_t p = 0; p < patterns_.size(); ++p) {
    if (is_used_[p]) continue;
    throw ConfigError(fmt::format(
        "train.freeze: '{}' matches no tensor of the model, whose tensors are called {}, {}, …; correct the "
        "pattern or take it out",
        patterns_[p], model.units.front().tensors.front().hf_name, model.units[1].tensors.front().hf_name));
  }
  if (model.trained_parameters() == 0)
    throw ConfigError(
        "train.freeze: its patterns match every tensor of the model, so there is nothing to train; take one "
        "out");
}

std::string freeze_difference(const std::vector<std::string>& stored, const Model& model) {
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      const bool was_frozen = std::ranges::any_of(
          stored, [&](const std::string& pattern) { return matches(pattern, tensor.hf_name); });
      if (was_frozen == (tensor.flat == Flat::frozen)) continue;
      return fmt::format("{} {}", tensor.hf_name, was_frozen ? "was frozen" : "was trained");
    }
  }
  return "";
}

}  // namespace strata
