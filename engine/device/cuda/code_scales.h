// Where cuBLASLt reads the scales of a product's codes. .cu files include it.
#pragma once

namespace strata {

/// What the codes of a and b are multiplied by, in the device's memory. cuBLASLt from 12.9 on wants each at a
/// multiple of 16 bytes. REQUIRES: multiples of kAlignment, which is what its heuristics are told.
struct CodeScales {
  float *a = nullptr, *b = nullptr;
};

}  // namespace strata
