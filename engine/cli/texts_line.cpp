#include "engine/cli/texts_line.h"

#include <fmt/format.h>

#include <iostream>

namespace strata {

void TextsLine::show(const TokenizeProgress& progress) {
  using Seconds = std::chrono::duration<double>;
  const double now = Seconds(Clock::now() - begin_).count();
  const double between = is_terminal_ ? 0.2 : 30;
  if (now - shown_ < between) return;
  shown_ = now;
  const double done = static_cast<double>(progress.bytes - progress.found),
               all = static_cast<double>(progress.all_bytes - progress.found);
  const std::string line = fmt::format(
      "{} of {} tokenized, {:.2f} million tokens, {}/s, {:.0f} s left", format_bytes(progress.bytes),
      format_bytes(progress.all_bytes), static_cast<double>(progress.tokens) / 1e6,
      format_bytes(static_cast<Bytes>(done / now)), now * (all - done) / done);
  std::cerr << (is_terminal_ ? "\r\033[K" : "") << line << (is_terminal_ ? "" : "\n") << std::flush;
}

double TextsLine::end() {
  if (is_terminal_ && shown_ > 0) std::cerr << "\r\033[K";
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

}  // namespace strata
