#include "engine/tools/cli/standard_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/error.h"

namespace strata {

StandardOutput::StandardOutput() : before_(std::cout.rdbuf(this)) {}

StandardOutput::~StandardOutput() {
  std::cout.rdbuf(before_);
}

void StandardOutput::finish() {
  sync();
  if (failure_ == 0 || failure_ == EPIPE) return;
  throw IoError(fmt::format("cannot write standard output: {}", std::strerror(failure_)));
}

StandardOutput::int_type StandardOutput::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char text = traits_type::to_char_type(character);
  return xsputn(&text, 1) == 1 ? character : traits_type::eof();
}

std::streamsize StandardOutput::xsputn(const char* text, std::streamsize count) {
  const std::size_t written = std::fwrite(text, 1, static_cast<std::size_t>(count), stdout);
  if (written != static_cast<std::size_t>(count)) note_failure();
  return static_cast<std::streamsize>(written);
}

int StandardOutput::sync() {
  if (std::fflush(stdout) == 0) return 0;
  note_failure();
  return -1;
}

/// A later flush may succeed, since stdio then has nothing left to write.
void StandardOutput::note_failure() {
  if (failure_ == 0) failure_ = errno;
}

}  // namespace strata
