#include "engine/tools/cli/opening.h"

#include <unistd.h>

#include <iostream>
#include <sstream>

#include "engine/tools/report/live_block.h"
#include "engine/tools/report/wrapped.h"

namespace strata {

void Opening::add(const std::string& lines, bool is_plain) {
  constexpr std::size_t kLabelColumns = 9;
  if (lines.empty()) return;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) lines_.push_back(line);
  if (!is_plain && !verbose_) return;
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  std::cerr << (is_terminal ? wrapped(lines, terminal_size().columns, kLabelColumns) : lines)
            << (lines.ends_with('\n') ? "" : "\n");
}

}  // namespace strata
