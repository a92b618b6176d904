#include "engine/input/chat/runtime.h"

#include <fmt/format.h>

#include "engine/input/chat/builtins.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

std::string described(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

Value undefined_element(const Value& of, const Value& key) {
  if (const std::string* name = key.text()) return undefined_attribute(of, *name);
  const auto index = key.integer();
  return Value::undefined(fmt::format("{} has no element {}", described(of),
                                      index ? std::to_string(*index) : std::string(type_name(key))));
}

/// An attribute in Python's sense, methods among them; nothing if there is none.
std::optional<Value> python_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (Object* object = value.object()) return object->attribute(runtime, name);
  switch (kind_of_method(value, name)) {
    case MethodKind::none:
      return std::nullopt;
    case MethodKind::unsafe:
      return Value::undefined(
          fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value)));
    case MethodKind::method:
      break;
  }
  return runtime.own<Function>("builtin_function_or_method", [value, method = std::string(name)](
                                                                 Runtime& here, const Arguments& arguments) {
    return call_method(here, value, method, arguments);
  });
}

}  // namespace

Value undefined_attribute(const Value& of, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", described(of), name));
}

Value Runtime::attribute(const Value& value, std::string_view name) {
  check_defined(value);
  if (auto found = python_attribute(*this, value, name)) return *found;
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return undefined_attribute(value, name);
}

Value Runtime::item(const Value& value, const Value& key) {
  check_defined(value);
  if (auto found = element(value, key)) return *found;
  if (const std::string* name = key.text()) {
    if (auto found = python_attribute(*this, value, *name)) return *found;
  }
  return undefined_element(value, key);
}

Value Runtime::call(const Value& callee, const Arguments& arguments) {
  check_defined(callee);
  Object* object = callee.object();
  if (object == nullptr) throw Problem(fmt::format("'{}' object is not callable", type_name(callee)));
  return object->call(*this, arguments);
}

Value Runtime::call_attribute(const Value& value, std::string_view name, const Arguments& arguments) {
  if (kind_of_method(value, name) == MethodKind::method) return call_method(*this, value, name, arguments);
  return call(attribute(value, name), arguments);
}

Value Runtime::filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const Filter apply = find_filter(name);
  if (apply == nullptr) throw Problem(fmt::format("the filter '{}' is not supported", name));
  const Meter::Level level(meter_);
  return apply(*this, value, arguments);
}

bool Runtime::test(std::string_view name, const Value& value, const Arguments& arguments) {
  const Test apply = find_test(name);
  if (apply == nullptr) throw Problem(fmt::format("the test '{}' is not supported", name));
  return apply(*this, value, arguments);
}

Walk::Walk(Runtime& runtime, Value value)
    : runtime_(runtime), value_(std::move(value)), text_(value_.text()) {
  const Object* object = value_.object();
  const bool walks = text_ != nullptr || value_.sequence() != nullptr || value_.dict() != nullptr ||
                     value_.is_undefined() || (object != nullptr && object->is_iterator());
  if (!walks) throw Problem(fmt::format("'{}' object is not iterable", type_name(value_)));
}

bool Walk::next(Value& item) {
  runtime_.meter().count_steps(1);
  if (Object* object = value_.object()) return object->next(item);
  if (const Sequence* sequence = value_.sequence()) {
    if (at_ == sequence->items.size()) return false;
    item = sequence->items[at_++];
    return true;
  }
  if (const Dict* dict = value_.dict()) {
    if (at_ == dict->entries.size()) return false;
    item = dict->entries[at_++].first;
    return true;
  }
  if (text_ == nullptr || at_ == text_->size()) return false;
  const std::size_t bytes = text::character_bytes((*text_)[at_]);
  item = std::string_view(*text_).substr(at_, bytes);
  at_ += bytes;
  return true;
}

bool is_contained(Runtime& runtime, const Value& container, const Value& item) {
  if (container.object() == nullptr) return contains(runtime.meter(), container, item);
  Walk walk(runtime, container);
  for (Value each; walk.next(each);) {
    if (equal(runtime.meter(), each, item)) return true;
  }
  return false;
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  Walk walk(runtime, value);
  for (Value item; walk.next(item);) {
    runtime.meter().count_bytes(sizeof(Value));
    items.push_back(item);
  }
  return items;
}

}  // namespace strata::chat
