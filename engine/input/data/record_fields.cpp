#include "engine/input/data/record_fields.h"

#include <algorithm>

namespace strata {

std::string RecordFields::key(const std::string& field) const {
  const auto found = std::ranges::find_if(names_, [&](const auto& name) { return name.first == field; });
  return found == names_.end() ? field : found->second;
}

bool RecordFields::uses(std::string_view key) const {
  return std::ranges::any_of(names_, [&](const auto& name) { return name.second == key; });
}

bool RecordFields::counts(std::initializer_list<const char*> fields) const {
  const auto is_named = [&](std::string_view field) {
    return std::ranges::any_of(names_, [&](const auto& name) { return name.first == field; });
  };
  constexpr std::array kFieldsOfForms = {"text", "prompt", "completion", "messages", "instruction", "output"};
  return std::ranges::none_of(kFieldsOfForms, is_named) || std::ranges::any_of(fields, is_named);
}

}  // namespace strata
