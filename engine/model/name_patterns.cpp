#include "engine/model/name_patterns.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/graph/unit.h"
#include "engine/model/model.h"

namespace strata {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool NamePatterns::match(const std::string& name) {
  bool found = false;
  for (std::size_t p = 0; p < patterns_.size(); ++p) {
    if (matches(patterns_[p], name)) found = is_used_[p] = true;
  }
  return found;
}

void NamePatterns::check(const Model& model) const {
  const auto unused = std::ranges::find(is_used_, false);
  if (unused == is_used_.end()) return;
  const std::string& pattern = nth(patterns_, unused - is_used_.begin());
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      if (!matches(pattern, tensor.hf_name)) continue;
      throw ConfigError(
          fmt::format("{}: '{}' matches only tensors that are not trained, such as {}; take the pattern out",
                      key_, pattern, tensor.hf_name));
    }
  }
  throw ConfigError(fmt::format(
      "{}: '{}' matches no tensor of the model, whose tensors are called {}, {}, …; correct the "
      "pattern or take it out",
      key_, pattern, model.units.front().tensors.front().hf_name, model.units[1].tensors.front().hf_name));
}

}  // namespace strata
