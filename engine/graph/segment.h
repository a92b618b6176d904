// A list of nodes with a place for every operand: what one instruction of a pass executes. Nothing is decided
// or allocated while it runs. Values; usable from any thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/device/kernel_work.h"
#include "engine/graph/operator.h"

namespace strata {

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
  };

  Segment(std::vector<Step> steps, const MicrobatchShape& shape);

  double flops() const { return flops_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// What all steps call. Other segments may have an equal one, none has the same.
  const std::shared_ptr<const Work>& work() const { return work_; }
  KernelWork work_of(const Step& step) const;
  bool touches(Region region) const { return reads(region) || writes(region); }
  /// Needs what was there, or changes it.
  bool reads(Region region) const { return read_[static_cast<std::size_t>(region)]; }
  bool writes(Region region) const { return written_[static_cast<std::size_t>(region)]; }

  void run(Kernels& kernels, const UnitMemory& memory, float loss_factor) const;
  void run_step(const Step& step, Kernels& kernels, const UnitMemory& memory, float loss_factor) const;

 private:
  std::vector<Step> steps_;
  MicrobatchShape shape_;
  std::shared_ptr<const Work> work_;
  double flops_ = 0;
  std::array<bool, kRegions> read_ = {}, written_ = {};
};

}  // namespace strata
