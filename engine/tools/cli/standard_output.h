// Standard output of the program, which may be a file on a full disk. Code that writes to std::cout need not
// check for errors: the command's end tells why something was lost. One thread at a time.
#pragma once

#include <streambuf>

namespace strata {

/// What std::cout writes to while this lives.
class StandardOutput : private std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  /// Flushes. Throws IoError if any of what was written is lost, but not if nobody reads it any more.
  void finish();

 private:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;
  void note_failure();

  std::streambuf* const before_;
  int failure_ = 0;  ///< errno of the first one
};

}  // namespace strata
