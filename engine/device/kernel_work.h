// What is computed, in the terms in which a machine is measured: calls of kernels.
#pragma once

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

/// What one instruction computes, in its order.
using Work = std::vector<KernelWork>;

}  // namespace strata
