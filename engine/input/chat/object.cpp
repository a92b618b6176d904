#include "engine/input/chat/object.h"

#include <fmt/format.h>

#include "engine/input/chat/problem.h"
#include "engine/input/chat/python_text.h"
#include "engine/input/chat/runtime.h"

namespace strata::chat {

std::string Object::text(Runtime&) const {
  throw Problem(fmt::format("printing a '{}' object is not supported", type_name()));
}

std::optional<Value> Object::attribute(Runtime&, std::string_view) {
  return std::nullopt;
}

Value Object::call(Runtime&, const Arguments&) {
  throw Problem(fmt::format("'{}' object is not callable", type_name()));
}

bool Object::next(Value&) {
  return false;
}

bool Iterator::next(Value& value) {
  const Meter::Level level(runtime_.meter());
  return next_(value);
}

std::string Namespace::text(Runtime& runtime) const {
  const Meter::Level level(runtime.meter());
  return fmt::format("<Namespace {}>", repr(runtime, Value(attributes)));
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  const Value* found = attributes.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

}  // namespace strata::chat
