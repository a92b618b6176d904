#include "engine/tools/cli/say.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "engine/tools/report/live_block.h"

namespace strata {

void say(std::string_view sentence) {
  end_live_output();
  std::cerr << fmt::format("{}strata: {}\n", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", sentence);
}

void tell(const std::string& lines) {
  say_above_blocks(lines);
}

void leave(const std::string& hang) {
  say(hang);
  std::_Exit(1);
}

}  // namespace strata
