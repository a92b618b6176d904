#include "engine/input/chat/scope.h"

#include <algorithm>

namespace strata::chat {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around_.get()) {
    Meter::count_search(scope->values_.size());
    for (const auto& [known, value] : scope->values_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  Meter::count_search(values_.size());
  const auto found = std::ranges::find(values_, name, [](const auto& each) { return each.first; });
  if (found != values_.end()) {
    found->second = std::move(value);
  } else {
    values_.emplace_back(name, std::move(value));
  }
}

}  // namespace strata::chat
