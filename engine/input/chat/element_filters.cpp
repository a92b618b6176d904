// Filters that look at elements one by one, when somebody asks for the next: an element that nobody asks for
// raises no error.
#include <fmt/format.h>

#include "engine/input/chat/filters.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"

namespace strata::chat {
namespace {

using ElementChange = std::function<Value(Runtime&, const Value&)>;
using ElementChoice = std::function<bool(Runtime&, const Value&)>;

/// A filter's walk over its value, which begins when its first element is asked for.
class LateWalk {
 public:
  LateWalk(Runtime& runtime, Value value) : runtime_(runtime), value_(std::move(value)) {}

  bool next(Value& item) {
    if (!walk_ && !is_true(value_)) return false;
    if (!walk_) walk_.emplace(runtime_, value_);
    return walk_->next(item);
  }

 private:
  Runtime& runtime_;
  Value value_;
  std::optional<Walk> walk_;
};

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& name_of(const Value& value, std::string_view kind) {
  if (!value.is_text()) throw Problem(fmt::format("a {}'s name is a text, not '{}'", kind, type_name(value)));
  return *value.text();
}

ElementChange change_of(const Arguments& arguments) {
  const Value* attribute = arguments.find("attribute");
  if (!arguments.positional.empty()) {
    return [name = name_of(arguments.positional[0], "filter"), rest = without_first(arguments, 1)](
               Runtime& runtime, const Value& item) { return runtime.filter(name, item, rest); };
  }
  if (attribute == nullptr) throw Problem("map requires a filter argument");
  for (const auto& [name, value] : arguments.named) {
    if (name != "attribute" && name != "default")
      throw Problem(fmt::format("Unexpected keyword argument '{}'", name));
  }
  const Value* otherwise = arguments.find("default");
  return [path = *attribute, otherwise = otherwise == nullptr ? Value() : *otherwise](Runtime& runtime,
                                                                                      const Value& item) {
    const Value found = attribute_by_path(runtime, item, path);
    return found.is_undefined() && !otherwise.is_none() ? otherwise : found;
  };
}

Value map_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return runtime.iterator(
      [&runtime, walk = LateWalk(runtime, value), arguments, change = ElementChange()](Value& item) mutable {
        Value each;
        if (!walk.next(each)) return false;
        if (!change) change = change_of(arguments);
        item = change(runtime, each);
        return true;
      });
}

ElementChoice choice_of(const Arguments& arguments, bool has_attribute) {
  const std::size_t used = has_attribute ? 1 : 0;
  if (arguments.positional.size() < used) throw Problem("Missing parameter for attribute name");
  const Value path = has_attribute ? arguments.positional[0] : Value();
  if (arguments.positional.size() == used) {
    return [path](Runtime& runtime, const Value& item) {
      return is_true(attribute_by_path(runtime, item, path));
    };
  }
  return [path, name = name_of(arguments.positional[used], "test"),
          rest = without_first(arguments, used + 1)](Runtime& runtime, const Value& item) {
    return runtime.test(name, attribute_by_path(runtime, item, path), rest);
  };
}

template <bool wanted, bool has_attribute>
Value select_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return runtime.iterator(
      [&runtime, walk = LateWalk(runtime, value), arguments, choice = ElementChoice()](Value& item) mutable {
        while (walk.next(item)) {
          if (!choice) choice = choice_of(arguments, has_attribute);
          if (choice(runtime, item) == wanted) return true;
        }
        return false;
      });
}

}  // namespace

const FilterTable& element_filters() {
  static const FilterTable table{
      {"map", map_filter},
      {"select", select_filter<true, false>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<false, true>},
  };
  return table;
}

}  // namespace strata::chat
