// What a `for` goes through, and what its body knows of that as `loop`. Looks ahead no further than it is
// asked to, since conditions of loops may depend on what bodies do. Used by one thread.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "engine/input/chat/object.h"
#include "engine/input/chat/runtime.h"

namespace strata::chat {

class Loop : public Object {
 public:
  using Next = std::function<bool(Value&)>;
  /// `next` writes the next item, or returns false at the end; `again` renders the loop with other items, one
  /// level deeper; `level` counts from 0.
  Loop(Next next, std::function<Value(const Value&)> again, std::int64_t level)
      : next_(std::move(next)), again_(std::move(again)), level_(level) {}

  /// Goes on to the next item; false at the end.
  bool advance();
  const Value& item() const { return *item_; }

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  Value call(Runtime& runtime, const Arguments& arguments) override;
  bool is_callable() const override { return true; }

 private:
  /// Whether `count` items follow this one. Reads them ahead.
  bool has_ahead(std::size_t count);
  std::int64_t length();
  Value cycled(const Arguments& arguments) const;
  bool has_changed(Runtime& runtime, const Arguments& arguments);

  Next next_;
  std::function<Value(const Value&)> again_;
  std::int64_t level_, index_ = -1;
  std::optional<Value> item_, previous_;
  std::deque<Value> ahead_;
  std::optional<Value> last_changed_;
};

}  // namespace strata::chat
