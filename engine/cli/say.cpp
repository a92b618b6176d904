#include "engine/cli/say.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace strata {

void say(std::string_view sentence) {
  std::cerr << fmt::format("{}strata: {}\n", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", sentence);
}

void leave(const std::string& hang) {
  say(hang);
  std::_Exit(1);
}

}  // namespace strata
