#include "engine/tools/report/live_block.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <utility>

#include "engine/tools/report/progress_text.h"
#include "engine/tools/report/terminal_keys.h"

namespace strata {
namespace {

/// What all that is drawn shares.
struct Drawing {
  std::mutex mutex;
  LiveBlock* block = nullptr;  ///< that has lines on the terminal
  bool has_ended = false;
};

Drawing& drawing() {
  static Drawing drawing;
  return drawing;
}

/// At once, so that no half of a block is seen.
void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// Zeros if it does not tell.
winsize size_of_terminal(int descriptor) {
  winsize size = {};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

}  // namespace

TerminalSize terminal_size_at(int descriptor) {
  const winsize size = size_of_terminal(descriptor);
  TerminalSize result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

TerminalSize terminal_size() {
  return terminal_size_at(STDERR_FILENO);
}

void end_live_output() {
  const std::lock_guard lock(drawing().mutex);
  drawing().has_ended = true;
  if (drawing().block != nullptr)
    drawing().block->lines_.clear();  // they stay, and nothing goes back to them
  drawing().block = nullptr;
  restore_terminal();
}

void say_above_blocks(const std::string& lines) {
  const std::lock_guard lock(drawing().mutex);
  if (drawing().block == nullptr) return print(lines);
  drawing().block->print_above(lines);
}

LiveBlock::~LiveBlock() {
  const std::lock_guard lock(drawing().mutex);
  if (drawing().block == this) drawing().block = nullptr;
}

/// The cursor goes to the block's first column and line. A terminal that has become narrower since has broken
/// longer lines.
std::string LiveBlock::to_its_start() const {
  if (lines_.empty()) return "";
  const std::size_t columns = size_of_terminal(STDERR_FILENO).ws_col;
  std::size_t rows = lines_.size();
  for (const std::string& line : lines_) {
    if (const std::size_t own = columns_of(line); columns > 0 && own > columns) rows += (own - 1) / columns;
  }
  return rows == 1 ? "\r" : fmt::format("\r\033[{}A", rows - 1);
}

void LiveBlock::draw(std::vector<std::string> lines) {
  const std::lock_guard lock(drawing().mutex);
  if (drawing().has_ended) return;
  const std::string start = to_its_start();
  lines_ = std::move(lines);
  print(fmt::format("{}{}\033[K\033[J", start, fmt::join(lines_, "\033[K\n")));
  drawing().block = lines_.empty() ? nullptr : this;
}

void LiveBlock::print_above(const std::string& lines) {
  const std::string erase = lines_.empty() ? "" : to_its_start() + "\033[J";
  print(fmt::format("{}{}{}", erase, lines, fmt::join(lines_, "\n")));
}

void LiveBlock::say(const std::string& line) {
  const std::lock_guard lock(drawing().mutex);
  print_above(line + "\n");
}

void LiveBlock::say_progress(const std::string& line) {
  const std::lock_guard lock(drawing().mutex);
  if (!drawing().has_ended) print_above(line + "\n");
}

void LiveBlock::finish() {
  const std::lock_guard lock(drawing().mutex);
  if (!lines_.empty()) print("\n");
  lines_.clear();
  if (drawing().block == this) drawing().block = nullptr;
}

}  // namespace strata
