// Python's ways to put values into a text: `%`, str.format(), and padding. Plain functions.
#pragma once

#include <string>
#include <string_view>

#include "engine/input/chat/runtime.h"

namespace strata::chat {

/// `format % values`. Throws Problem for conversions other than s, r, d, i, x, X, o, f, e, g, c and %.
std::string percent_formatted(Runtime& runtime, std::string_view format, const Value& values);

/// str.format(). Throws Problem for a format specification and for attributes within braces.
std::string brace_formatted(Runtime& runtime, std::string_view format, const Arguments& arguments);

/// The following pad a text to `width` characters. Throw Problem if `fill` is not one character.
std::string centered(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill);
std::string padded_left(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill);
std::string padded_right(Meter& meter, std::string_view text, std::int64_t width, std::string_view fill);

}  // namespace strata::chat
