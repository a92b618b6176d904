// A drive that hangs under the program, as tests/hanging_calls makes it.
#pragma once

#include <cstdlib>
#include <string>

namespace strata::test {

/// What is started while it lives meets the drive that tests/hanging_calls describes.
class HangingDrive {
 public:
  explicit HangingDrive(const std::string& call_part_count) {
    ::setenv("STRATA_TEST_HANG", call_part_count.c_str(), 1);
    ::setenv("LD_PRELOAD", STRATA_HANGING_CALLS, 1);
    ::setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  }
  ~HangingDrive() {
    for (const char* name : {"STRATA_TEST_HANG", "LD_PRELOAD", "ASAN_OPTIONS"}) ::unsetenv(name);
  }
  HangingDrive(const HangingDrive&) = delete;
  HangingDrive& operator=(const HangingDrive&) = delete;
};

}  // namespace strata::test
