// Values as text: as Python prints them, and as json.dumps writes them. Plain functions; texts that
// grow are within the limits of the runtime's meter.
#pragma once

#include <string>
#include <string_view>

#include "engine/input/chat/runtime.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

/// What `{{ value }}` writes: str(value).
std::string printed(Runtime& runtime, const Value& value);
/// repr(value).
std::string repr(Runtime& runtime, const Value& value);
std::string repr_of_text(std::string_view text);
std::string repr_of_number(double number);

struct JsonForm {
  bool ensures_ascii = false, sorts_keys = false;
  std::optional<std::string> indent;  ///< of each level; nothing: all in one line
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(value). Throws Problem for what is no JSON.
std::string json_of(Runtime& runtime, const Value& value, const JsonForm& form);

}  // namespace strata::chat
