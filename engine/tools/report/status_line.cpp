#include "engine/tools/report/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <utility>

#include "engine/tools/report/live_block.h"
#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

constexpr double kOnTerminal = 0.4, kElsewhere = 30;

bool is_terminal() {
  return isatty(STDERR_FILENO) != 0;
}

}  // namespace

StatusLine::StatusLine() : StatusLine(is_terminal() ? kOnTerminal : kElsewhere) {}

StatusLine::StatusLine(double seconds_between)
    : is_terminal_(is_terminal()), seconds_between_(seconds_between), thread_([this] { draw_until_end(); }) {}

void StatusLine::show(std::string words) {
  const std::lock_guard lock(mutex_);
  words_ = std::move(words);
}

void StatusLine::end() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (std::exchange(is_drawn_, false) && is_terminal_) std::cerr << "\r\033[K" << std::flush;
}

double StatusLine::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

void StatusLine::draw_until_end() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> between(seconds_between_);
  while (!ending_.wait_for(lock, between, [&] { return has_ended_; }))
    if (!words_.empty()) draw(words_);
}

void StatusLine::draw(const std::string& words) {
  const std::string line = fmt::format("{}  {}", format_duration(seconds()), words);
  is_drawn_ = true;
  if (is_terminal_) {
    std::cerr << "\r\033[K" << shortened(line, terminal_size().columns - 1) << std::flush;
  } else {
    std::cerr << line << std::endl;
  }
}

}  // namespace strata
