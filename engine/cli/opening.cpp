#include "engine/cli/opening.h"

#include <iostream>
#include <sstream>

namespace strata {

void Opening::say(const std::string& lines) {
  keep(lines);
  std::cerr << lines << (lines.ends_with('\n') ? "" : "\n");
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
