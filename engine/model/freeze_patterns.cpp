#include "engine/model/freeze_patterns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/model/model.h"

namespace strata {

std::vector<bool> FreezePatterns::find_frozen(const Unit& unit) {
  std::vector<bool> frozen;
  for (const TensorSpec& tensor : unit.tensors) frozen.push_back(patterns_.match(tensor.hf_name));
  return frozen;
}

void FreezePatterns::check(const Model& model) const {
  patterns_.check(model);
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
