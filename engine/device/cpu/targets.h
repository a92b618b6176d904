// Which instruction sets the vector kernels are compiled for. Include before any Highway header. The variants
// left out differ from their neighbours in instructions that these kernels do not use, or have vectors
// without a fixed size.
#pragma once

#include "hwy/detect_targets.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
