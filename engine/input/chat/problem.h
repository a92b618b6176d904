// Why a template cannot be read or rendered. The caller that knows the template's name makes a ConfigError of
// it, so that only ConfigErrors leave this library.
#pragma once

#include <stdexcept>
#include <string>

namespace strata::chat {

struct Problem : std::runtime_error {
  explicit Problem(const std::string& reason, int at_line = 0) : std::runtime_error(reason), line(at_line) {}
  int line;  ///< of the template; 0: where the interpreter is
};

}  // namespace strata::chat
