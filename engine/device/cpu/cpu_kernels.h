// The CPU device's kernels (see engine/device/kernels.h for the contract): vector code chosen for the machine
// at run time, threads from the device's pool. One object per lane; it owns that lane's scratch (scratch.h).
#pragma once

#include <memory>

#include "engine/device/kernels.h"

namespace strata {

struct CpuContext;
class TaskArena;

class CpuKernels final : public Kernels {
 public:
  /// `pool` outlives this object.
  explicit CpuKernels(TaskArena& pool);
  ~CpuKernels() override;

  void reserve_scratch(const ScratchBytes& largest) override;
  Bytes scratch_bytes() const override;
  void run(const KernelCall& call) override;

 private:
  std::unique_ptr<CpuContext> context_;
};

}  // namespace strata
