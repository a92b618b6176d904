#include "engine/input/chat/object.h"

#include <limits>

#include <fmt/format.h>

#include "engine/input/chat/operators.h"
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

bool Loop::has_ahead(std::size_t count) {
  for (Value item; ahead_.size() < count && next_(item);) ahead_.push_back(item);
  return ahead_.size() >= count;
}

bool Loop::advance() {
  if (!has_ahead(1)) return false;
  previous_ = std::move(item_);
  item_ = std::move(ahead_.front());
  ahead_.pop_front();
  ++index_;
  return true;
}

std::int64_t Loop::length() {
  has_ahead(std::numeric_limits<std::size_t>::max());
  return index_ + 1 + std::ssize(ahead_);
}

Value Loop::cycled(const Arguments& arguments) const {
  if (arguments.positional.empty()) throw Problem("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(index_) % arguments.positional.size()];
}

bool Loop::has_changed(Runtime& runtime, const Arguments& arguments) {
  const Value values = tuple(arguments.positional);
  if (last_changed_ && equal(runtime.meter(), *last_changed_, values)) return false;
  last_changed_ = values;
  return true;
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "last") return !has_ahead(1);
  if (name == "length") return length();
  if (name == "revindex") return length() - index_;
  if (name == "revindex0") return length() - index_ - 1;
  if (name == "previtem") return previous_ ? *previous_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return has_ahead(1) ? ahead_.front() : Value::undefined("there is no next item");
  if (name == "depth") return level_ + 1;
  if (name == "depth0") return level_;
  if (name == "cycle") {
    return runtime.own<Function>("method",
                                 [this](Runtime&, const Arguments& arguments) { return cycled(arguments); });
  }
  if (name == "changed") {
    return runtime.own<Function>("method", [this](Runtime& here, const Arguments& arguments) -> Value {
      return has_changed(here, arguments);
    });
  }
  return std::nullopt;
}

Value Loop::call(Runtime&, const Arguments& arguments) {
  const Parameters given("loop", arguments, {"iterable"}, 1);
  if (!again_) throw Problem("The loop must have the 'recursive' marker to be called recursively.");
  return again_(*given[0]);
}

}  // namespace strata::chat
