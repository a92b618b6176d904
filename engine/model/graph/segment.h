// A list of nodes with a place for every operand: what one instruction of a pass executes. Nothing is decided
// or allocated while it runs. Values; usable from any thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/nth.h"
#include "engine/device/kernel_work.h"
#include "engine/model/graph/operator.h"

namespace strata {

/// Flat gradients of parameters that hold nothing yet: their elements, or 0 if they are added to.
struct BegunGradients {
  std::int64_t gradient = 0, shared_gradient = 0;

  std::int64_t of(Region region) const {
    return region == Region::gradient ? gradient : region == Region::shared_gradient ? shared_gradient : 0;
  }
};

class Segment {
 public:
  struct PlacedOperand {
    Region region = Region::workspace;
    Bytes offset = 0;
    Matrix size = {};
    bool has_indices = false;  ///< int32, whatever `size` says
  };
  struct Step {
    std::shared_ptr<const Operator> rule;
    std::vector<PlacedOperand> operands = {};
    /// Gradients of parameters that it can overwrite, and that no step of the segment before it touches.
    OperandSet first_gradients = 0;
  };

  Segment(std::vector<Step> steps, const MicrobatchShape& shape);

  double flops() const { return flops_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// What all steps call. Other segments may have an equal one, none has the same.
  const std::shared_ptr<const Work>& work() const { return work_; }
  KernelWork work_of(const Step& step) const;
  bool touches(Region region) const { return reads(region) || writes(region); }
  /// Needs what was there, or changes it.
  bool reads(Region region) const { return nth(read_, region); }
  bool writes(Region region) const { return nth(written_, region); }

  /// Gradients that begin here are written as if all their elements had been zeros before.
  void run(Kernels& kernels, const UnitMemory& memory, float loss_factor,
           const BegunGradients& begun = {}) const;
  void run_step(const Step& step, Kernels& kernels, const UnitMemory& memory, float loss_factor,
                const BegunGradients& begun = {}) const;
  /// Clears what steps do not overwrite of a gradient that begins here; before them.
  void clear(Kernels& kernels, const UnitMemory& memory, const BegunGradients& begun) const;

 private:
  /// Bytes of a region, from first to end.
  struct Range {
    Bytes first, end;
  };
  void find_first_gradients();

  std::vector<Step> steps_;
  MicrobatchShape shape_;
  std::shared_ptr<const Work> work_;
  double flops_ = 0;
  std::array<bool, kRegions> read_ = {}, written_ = {};
  std::array<std::vector<Range>, kRegions> overwritten_;  ///< of gradients, by address
};

}  // namespace strata
