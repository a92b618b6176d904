// Products that a device's library computes by one of several algorithms: which one is fastest is found by
// timing them. The choice is text, so that it can be kept, and used by other processes. Choosing algorithms
// decides bits, as each adds in an order of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/device/kernels.h"

namespace strata {

/// Makes all calls of a run to the kernels that it is given. Their operands point anywhere, at addresses that
/// are aligned as those of the run.
using CallsOfRun = std::function<void(Kernels&)>;

/// One thread at a time, before the device's streams get any product.
class ProductChooser {
 public:
  virtual ~ProductChooser() = default;

  /// The products of the calls, each once. A name says all that a choice depends on: the device, its library
  /// with the version, shapes, types and places of operands. It is one line.
  virtual const std::vector<std::string>& names() const = 0;

  /// Memory that time() needs for the `number`-th of names().
  virtual Bytes bytes(std::size_t number) const = 0;
  /// The fastest algorithm of the library's first proposals, in words without spaces; of those that time does
  /// not tell apart, the library's first. REQUIRES: `memory` has bytes(number) of the device, with finite
  /// numbers. Throws DeviceError.
  virtual std::string fastest(std::size_t number, std::byte* memory) = 0;

  /// From now on the device computes this product by `algorithm`. False if its library does not take that.
  virtual bool use(std::size_t number, const std::string& algorithm) = 0;
};

}  // namespace strata
