// What filters, tests and functions need of a rendering: its limits, its objects, and values' attributes,
// elements and calls as Jinja's sandbox gives them. One per rendering, used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/input/chat/arguments.h"
#include "engine/input/chat/meter.h"
#include "engine/input/chat/object.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : meter_(limits) {}

  Meter& meter() { return meter_; }

  /// An object that lives as long as this.
  template <typename Kind, typename... Parts>
  Kind& own(Parts&&... parts) {
    meter_.count_bytes(kObjectBytes);
    auto made = std::make_unique<Kind>(std::forward<Parts>(parts)...);
    Kind& object = *made;
    objects_.push_back(std::move(made));
    return object;
  }
  Value iterator(std::function<bool(Value&)> next) { return own<Iterator>(*this, std::move(next)); }

  /// `value.name`: an attribute or method, else an element, else undefined.
  Value attribute(const Value& value, std::string_view name);
  /// `value[key]`: an element, else an attribute or method, else undefined.
  Value item(const Value& value, const Value& key);
  Value call(const Value& callee, const Arguments& arguments);
  /// `value.name(arguments)`, without making an object of the method.
  Value call_attribute(const Value& value, std::string_view name, const Arguments& arguments);

  /// The following throw Problem for a name that is not known.
  Value filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool test(std::string_view name, const Value& value, const Arguments& arguments);

 private:
  static constexpr std::int64_t kObjectBytes = 256;  // about what one takes

  Meter meter_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// Walks over what Python can iterate: the characters of texts, the keys of dicts, nothing of what is
/// undefined. Each step is counted.
class Walk {
 public:
  /// Throws Problem if the value is nothing to iterate.
  Walk(Runtime& runtime, Value value);
  /// False at the end.
  bool next(Value& item);

 private:
  Runtime& runtime_;
  Value value_;
  const std::string* text_;  ///< value_'s; null if it is none
  std::size_t at_ = 0;
};

/// `item in container`.
bool is_contained(Runtime& runtime, const Value& container, const Value& item);

/// All that a walk gives.
std::vector<Value> items_of(Runtime& runtime, const Value& value);

/// What "there is no such thing" is to Jinja: undefined, with the sentence that an error says.
Value undefined_attribute(const Value& of, std::string_view name);

}  // namespace strata::chat
