// What is computed, in the terms in which a machine is measured: calls of kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace strata {

/// A call of a kernel. Calls of one name take equally long on a machine.
struct KernelWork {
  std::string name;  ///< the operator, its operands' sizes, and FLOPs: "linear 64x512bf16 512x512bf16 …"
  double flops = 0;  ///< of products of matrices
  Bytes bytes = 0;   ///< of its operands, read or written
  friend bool operator==(const KernelWork&, const KernelWork&) = default;
};

struct RepeatedCall {
  KernelWork call;
  std::int64_t times = 1;
  friend bool operator==(const RepeatedCall&, const RepeatedCall&) = default;
};

/// What one instruction computes: each call once, in the order of their first times. Passes over many rows in
/// chunks repeat a few.
using Work = std::vector<RepeatedCall>;

}  // namespace strata
