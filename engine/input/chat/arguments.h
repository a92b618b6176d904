// What a call passes, and which parameter gets it. Plain values.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/input/chat/value.h"

namespace strata::chat {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const;
};

/// The arguments of a function by its parameters, as Python binds them.
class Parameters {
 public:
  /// Throws Problem if an argument has no parameter, or if one of the first `required` parameters gets none.
  /// Refers to `arguments`, which must outlive it.
  Parameters(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, std::size_t required = 0);

  /// Null if the parameter gets no argument.
  const Value* operator[](std::size_t parameter) const { return values_[parameter]; }
  /// Null if the parameter gets no argument, or None.
  const Value* some(std::size_t parameter) const;
  /// The following throw Problem if the argument is of another type.
  const std::string& text(std::size_t parameter) const;
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  /// Whether Python takes the argument for true.
  bool flag(std::size_t parameter, bool otherwise) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace strata::chat
