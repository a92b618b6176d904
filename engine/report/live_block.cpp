#include "engine/report/live_block.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace strata {
namespace {

/// At once, so that no half of a block is seen.
void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

TerminalSize terminal_size() {
  winsize size = {};
  TerminalSize result;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

/// The cursor goes to the block's first column and line.
std::string LiveBlock::to_its_start() const {
  if (lines_.empty()) return "";
  return lines_.size() == 1 ? "\r" : fmt::format("\r\033[{}A", lines_.size() - 1);
}

void LiveBlock::draw(std::vector<std::string> lines) {
  const std::string start = to_its_start();
  lines_ = std::move(lines);
  print(fmt::format("{}{}\033[K\033[J", start, fmt::join(lines_, "\033[K\n")));
}

void LiveBlock::say(const std::string& line) {
  const std::string erase = lines_.empty() ? "" : to_its_start() + "\033[J";
  print(fmt::format("{}{}\n{}", erase, line, fmt::join(lines_, "\n")));
}

void LiveBlock::finish() {
  if (!lines_.empty()) print("\n");
  lines_.clear();
}

}  // namespace strata
