// What a device's kernels need for each call, known without the device, and what a whole run needs: its calls
// are given to a ScratchMeter.
#pragma once

#include "engine/device/kernels.h"

namespace strata {

/// The scratch of each call on some device. It follows from shapes, strides and dtypes: pointers say only
/// what is given and are not followed. The kernels size their memory by the same functions.
class ScratchRules {
 public:
  virtual ~ScratchRules() = default;

  virtual ScratchBytes of(const KernelCall& call) const = 0;

  /// All that a device sets up for kernels whose calls need at most `largest`.
  virtual std::vector<ScratchPart> parts(const ScratchBytes& largest) const = 0;
};

/// Kernels that compute nothing and keep the largest need of the calls that they get. Operands may point
/// anywhere.
class ScratchMeter final : public Kernels {
 public:
  /// `rules` outlive this object.
  explicit ScratchMeter(const ScratchRules& rules) : rules_(rules) {}
  const ScratchBytes& largest() const { return largest_; }

  void run(const KernelCall& call) override { largest_.raise(rules_.of(call)); }

 private:
  const ScratchRules& rules_;
  ScratchBytes largest_;
};

}  // namespace strata
