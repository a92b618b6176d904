#include "engine/cli/opening.h"

#include <unistd.h>

#include <iostream>
#include <sstream>

#include "engine/report/live_block.h"
#include "engine/report/wrapped.h"

namespace strata {

void Opening::say(const std::string& lines) {
  keep(lines);
  constexpr std::size_t kLabelColumns = 9;
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  std::cerr << (is_terminal ? wrapped(lines, terminal_size().columns, kLabelColumns) : lines)
            << (lines.ends_with('\n') ? "" : "\n");
}

void Opening::detail(const std::string& lines) {
  if (lines.empty()) return;
  if (verbose_) {
    say(lines);
  } else {
    keep(lines);
  }
}

void Opening::keep(const std::string& lines) {
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) lines_.push_back(line);
}

}  // namespace strata
