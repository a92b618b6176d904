// What tests on the emulated GPU share: a test may change the machine, and it is as before afterwards; none
// leaves a mistake of what it issued behind.
#pragma once

#include <gtest/gtest.h>

#include "tests/gpu_emulation/emulated_gpu.h"

namespace strata::gpu_emulation {

class EmulatedMachine : public ::testing::Test {
 protected:
  ~EmulatedMachine() override { machine() = before_; }
  void TearDown() override { EXPECT_EQ(take_failure(), ""); }

 private:
  Machine before_ = machine();
};

}  // namespace strata::gpu_emulation
