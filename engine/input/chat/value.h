// What a template computes with: Python's values, as far as templates see them. Values are immutable, as in
// the sandbox in which transformers renders, so they are shared freely; only objects, which the renderer
// owns, have a state. Lists in lists are limited in depth, since values are walked by recursion. A value
// counts itself by the thread's meter when it is made, and its text each time that it is read.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/input/chat/meter.h"

namespace strata::chat {

class Object;
class Value;

/// What a name or an attribute that is not there gives: empty text, or an error where more is asked of it.
struct Undefined {
  std::shared_ptr<const std::string> reason;  ///< what the error says
};
struct None {};
/// A text that is markup of HTML by the filter `safe` makes markup of what is added to it.
struct TextData {
  std::shared_ptr<const std::string> text;
  bool is_markup = false;
};
struct Dict;
struct Sequence;

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, TextData,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Object*>;

  Value() : data_(None{}) {}
  Value(bool flag) : data_(flag) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Value(Number number) : data_(static_cast<std::int64_t>(number)) {}
  Value(double number) : data_(number) {}
  Value(std::string text);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Sequence sequence);
  Value(Dict dict);
  Value(Object& object) : data_(&object) {}
  template <typename Other>
  Value(Other*) = delete;  // which would become a bool
  static Value undefined(std::string reason);
  static Value markup(std::string text);

  const Data& data() const { return data_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_text() const { return std::holds_alternative<TextData>(data_); }
  bool is_empty_text() const { return is_text() && std::get<TextData>(data_).text->empty(); }
  /// The following are null if this is of another kind.
  const bool* flag() const { return std::get_if<bool>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  /// To be read, which is counted as if all of it were: keep what this gives, and ask is_text() for the kind.
  const std::string* text() const;
  bool is_markup() const;
  const Sequence* sequence() const;
  const Dict* dict() const;
  Object* object() const;
  /// True and False are numbers, too.
  std::optional<std::int64_t> integer() const;
  bool is_number() const { return integer() || real() != nullptr; }

 private:
  Data data_;
};

enum class SequenceKind : std::uint8_t { list, tuple, range, dict_keys, dict_values, dict_items };

/// Throws Problem, when a Value is made of it, for values that are nested too deep; so does Dict.
struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items = {};
  int depth = 0;  ///< set when a Value is made of it
};

/// In the order in which keys came.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 0;  ///< set when a Value is made of it

  /// The value of a key, or null. This and set() throw Problem for a key that Python cannot hash, and for
  /// tuples.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
};

Value list(std::vector<Value> items);
Value tuple(std::vector<Value> items);

/// Throws Problem for a number of more than 64 bits, and for values that are nested too deep.
Value from_json(const nlohmann::ordered_json& json);

/// The name that Python has for the value's type.
std::string_view type_name(const Value& value);

}  // namespace strata::chat
