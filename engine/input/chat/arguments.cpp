#include "engine/input/chat/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nth.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"

namespace strata::chat {

const Value* Arguments::find(std::string_view name) const {
  Meter::count_search(named.size());
  const auto found = std::ranges::find(named, name, [](const auto& each) { return each.first; });
  return found == named.end() ? nullptr : &found->second;
}

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, std::size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    throw Problem(fmt::format("'{}' takes at most {} arguments, not {}", function, names.size(),
                              arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = index_of(names, std::ranges::find(names, name));
    if (place == names.size()) throw Problem(fmt::format("'{}' has no parameter '{}'", function, name));
    if (values_[place] != nullptr) throw Problem(fmt::format("'{}' gets '{}' twice", function, name));
    values_[place] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr)
      throw Problem(fmt::format("'{}' needs an argument '{}'", function, names.begin()[i]));
  }
}

const Value* Parameters::some(std::size_t parameter) const {
  const Value* value = values_[parameter];
  return value == nullptr || value->is_none() ? nullptr : value;
}

const std::string& Parameters::text(std::size_t parameter) const {
  const std::string* text = values_[parameter]->text();
  if (text == nullptr) {
    check_defined(*values_[parameter]);
    throw Problem(fmt::format("'{}' needs a text, not '{}'", function_, type_name(*values_[parameter])));
  }
  return *text;
}

std::int64_t Parameters::integer(std::size_t parameter, std::int64_t otherwise) const {
  if (values_[parameter] == nullptr) return otherwise;
  const auto number = values_[parameter]->integer();
  if (!number) {
    check_defined(*values_[parameter]);
    throw Problem(
        fmt::format("'{}' needs a whole number, not '{}'", function_, type_name(*values_[parameter])));
  }
  return *number;
}

bool Parameters::flag(std::size_t parameter, bool otherwise) const {
  return values_[parameter] == nullptr ? otherwise : is_true(*values_[parameter]);
}

}  // namespace strata::chat
