// What of a rendering has an identity or a state: namespaces, macros, loops, functions, and the iterators
// that filters such as map give. The renderer owns them until the text is done, so that they may refer to one
// another in circles.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/input/chat/arguments.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

class Runtime;

class Object {
 public:
  virtual ~Object() = default;

  /// Python's name for what this is.
  virtual std::string_view type_name() const = 0;
  /// What printing it gives. Throws Problem if that depends on addresses.
  virtual std::string text(Runtime& runtime) const;
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name);
  /// Throws Problem if this cannot be called.
  virtual Value call(Runtime& runtime, const Arguments& arguments);
  virtual bool is_callable() const { return false; }
  virtual bool is_iterator() const { return false; }
  /// The next value, or false at the end. REQUIRES: is_iterator().
  virtual bool next(Value& value);
};

/// Gives values one by one, and each once.
class Iterator : public Object {
 public:
  /// `next` writes the next value, or returns false at the end.
  Iterator(Runtime& runtime, std::function<bool(Value&)> next) : runtime_(runtime), next_(std::move(next)) {}

  std::string_view type_name() const override { return "generator"; }
  bool is_iterator() const override { return true; }
  bool next(Value& value) override;

 private:
  Runtime& runtime_;
  std::function<bool(Value&)> next_;
};

/// A function of ours, or a method that is bound to its value.
class Function : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Arguments&)>;
  Function(std::string_view type, Body body) : type_(type), body_(std::move(body)) {}

  std::string_view type_name() const override { return type_; }
  Value call(Runtime& runtime, const Arguments& arguments) override { return body_(runtime, arguments); }
  bool is_callable() const override { return true; }

 private:
  std::string_view type_;
  Body body_;
};

/// namespace(): the only thing that templates change.
class Namespace : public Object {
 public:
  Dict attributes;

  std::string_view type_name() const override { return "Namespace"; }
  std::string text(Runtime& runtime) const override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
};

/// What a `for` goes through, and what its body knows of that as `loop`. Looks ahead no further than it is
/// asked to, since conditions of loops may depend on what bodies do.
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
