// A filesystem that has no more room than it is told to have.
#pragma once

#include "tests/base/faulty_file_system.h"

namespace strata::test {

class SmallFileSystem : public FaultyFileSystem {
 public:
  explicit SmallFileSystem(Bytes free) : free_(free) {}
  Bytes free_bytes(const std::filesystem::path&) override { return free_; }

 private:
  Bytes free_;
};

}  // namespace strata::test
