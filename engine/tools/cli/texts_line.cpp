#include "engine/tools/cli/texts_line.h"

#include <fmt/format.h>

namespace strata {

void TextsLine::show(const TokenizeProgress& progress) {
  const double now = line_.seconds();
  const double done = static_cast<double>(progress.bytes - progress.found),
               all = static_cast<double>(progress.all_bytes - progress.found);
  line_.show(fmt::format("{} of {} tokenized, {:.2f} million tokens, {}/s, {:.0f} s left",
                         format_bytes(progress.bytes), format_bytes(progress.all_bytes),
                         static_cast<double>(progress.tokens) / 1e6,
                         format_bytes(static_cast<Bytes>(done / now)), now * (all - done) / done));
}

double TextsLine::end() {
  const double seconds = line_.seconds();
  line_.end();
  return seconds;
}

}  // namespace strata
