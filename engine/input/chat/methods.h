// The methods of Python's str, list, tuple and dict that templates may call: those that change nothing. Plain
// functions.
#pragma once

#include <map>
#include <string_view>

#include "engine/input/chat/runtime.h"

namespace strata::chat {

/// An unsafe one would change the value, or reach into Python; to the sandbox it is undefined.
enum class MethodKind : std::uint8_t { none, method, unsafe };

MethodKind kind_of_method(const Value& value, std::string_view name);

/// REQUIRES: kind_of_method(value, name) is method. Throws Problem for one that is not supported.
Value call_method(Runtime& runtime, const Value& value, std::string_view name, const Arguments& arguments);

using TextMethod = Value (*)(Runtime&, const std::string&, const Arguments&);
using TextMethodTable = std::map<std::string_view, TextMethod>;
/// The methods of str by what they give: other texts, parts of a text, or an answer about it. Null is one
/// that is not supported.
const TextMethodTable& changing_text_methods();
const TextMethodTable& splitting_text_methods();
const TextMethodTable& asking_text_methods();

}  // namespace strata::chat
