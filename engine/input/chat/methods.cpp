#include "engine/input/chat/builtins.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/input/chat/markup.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"

namespace strata::chat {
namespace {

using DictMethod = Value (*)(const Dict&, const Arguments&);
using SequenceMethod = Value (*)(Runtime&, const Value&, const Arguments&);

Value get_method(const Dict& dict, const Arguments& arguments) {
  const Parameters given("get", arguments, {"key", "default"}, 1);
  if (!arguments.named.empty()) throw Problem("get() takes no keyword arguments");
  const Value* found = dict.find(*given[0]);
  if (found != nullptr) return *found;
  return given[1] == nullptr ? Value() : *given[1];
}

template <SequenceKind kind>
Value view_method(const Dict& dict, const Arguments& arguments) {
  const Parameters none("dict's method", arguments, {});
  Sequence view{.kind = kind};
  for (const auto& [key, value] : dict.entries) {
    view.items.push_back(kind == SequenceKind::dict_keys     ? key
                         : kind == SequenceKind::dict_values ? value
                                                             : tuple({key, value}));
  }
  return view;
}

Value copy_dict_method(const Dict& dict, const Arguments& arguments) {
  const Parameters none("copy", arguments, {});
  return dict;
}

Value count_items_method(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("count", arguments, {"value"}, 1);
  return std::ranges::count_if(value.sequence()->items,
                               [&](const Value& item) { return equal(runtime.meter(), item, *given[0]); });
}

Value index_of_item_method(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = value.sequence()->items;
  const auto found =
      std::ranges::find_if(items, [&](const Value& item) { return equal(runtime.meter(), item, *given[0]); });
  if (found == items.end()) throw Problem("index(): the value is not in the list");
  return found - items.begin();
}

Value copy_list_method(Runtime&, const Value& value, const Arguments& arguments) {
  const Parameters none("copy", arguments, {});
  return value;
}

const std::map<std::string_view, DictMethod>& dict_methods() {
  static const std::map<std::string_view, DictMethod> table{
      {"get", get_method},
      {"keys", view_method<SequenceKind::dict_keys>},
      {"values", view_method<SequenceKind::dict_values>},
      {"items", view_method<SequenceKind::dict_items>},
      {"copy", copy_dict_method},
      {"fromkeys", nullptr},
  };
  return table;
}

const std::map<std::string_view, SequenceMethod>& sequence_methods() {
  static const std::map<std::string_view, SequenceMethod> table{
      {"count", count_items_method}, {"index", index_of_item_method}, {"copy", copy_list_method}};
  return table;
}

TextMethod const* find_text_method(std::string_view name) {
  for (const TextMethodTable* table :
       {&changing_text_methods(), &splitting_text_methods(), &asking_text_methods()}) {
    const auto found = table->find(name);
    if (found != table->end()) return &found->second;
  }
  return nullptr;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void refuse_method(const Value& value, std::string_view name) {
  throw Problem(fmt::format("the method '{}.{}' is not supported", type_name(value), name));
}

/// A method of markup gives markup, and takes what it puts in for text.
Value call_markup_method(Runtime& runtime, const Value& value, const std::string& text, std::string_view name,
                         TextMethod method, const Arguments& arguments) {
  if (is_one_of(name, {"join", "format"}))
    throw Problem(fmt::format("the method '{}' of what is safe is not supported", name));
  Arguments given = arguments;
  if (name == "replace" && given.positional.size() > 1 && given.positional[1].is_text())
    given.positional[1] = escaped(runtime.meter(), given.positional[1]);
  return all_like(value, method(runtime, text, given));
}

}  // namespace

MethodKind kind_of_method(const Value& value, std::string_view name) {
  const bool is_internal = name.starts_with("__") && name.ends_with("__");
  if (value.object() == nullptr && is_internal) return MethodKind::unsafe;
  const auto is_method = [](bool holds) { return holds ? MethodKind::method : MethodKind::none; };
  if (value.is_text()) return is_method(find_text_method(name) != nullptr);
  if (value.dict() != nullptr) {
    if (is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"})) return MethodKind::unsafe;
    return is_method(dict_methods().contains(name));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return MethodKind::none;
  if (sequence->kind == SequenceKind::list) {
    if (is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}))
      return MethodKind::unsafe;
    return is_method(sequence_methods().contains(name));
  }
  return is_method(sequence->kind <= SequenceKind::range && is_one_of(name, {"count", "index"}));
}

Value call_method(Runtime& runtime, const Value& value, std::string_view name, const Arguments& arguments) {
  if (const std::string* text = value.text()) {
    const TextMethod method = *find_text_method(name);
    if (method == nullptr) refuse_method(value, name);
    return value.is_markup() ? call_markup_method(runtime, value, *text, name, method, arguments)
                             : method(runtime, *text, arguments);
  }
  if (const Dict* dict = value.dict()) {
    const DictMethod method = dict_methods().find(name)->second;
    if (method == nullptr) refuse_method(value, name);
    return method(*dict, arguments);
  }
  return sequence_methods().find(name)->second(runtime, value, arguments);
}

}  // namespace strata::chat
