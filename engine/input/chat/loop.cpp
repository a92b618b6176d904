#include "engine/input/chat/loop.h"

#include <limits>

#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"

namespace strata::chat {

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
