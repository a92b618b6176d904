// The texts that a template quotes. A plain function.
#pragma once

#include <string>
#include <string_view>

namespace strata::chat {

/// What stands between quotes, with Python's escapes done; `line` is for errors. Throws Problem for escapes
/// that give no character.
std::string unescaped(std::string_view quoted, int line);

}  // namespace strata::chat
