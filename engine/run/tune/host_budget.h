// What `unlimited` means: budgets of a run from what its machine has. What computes a plan knows no machine;
// commands set the budgets before it.
#pragma once

#include <string>

#include "engine/config/memory_section.h"

namespace strata {

struct Model;
struct RunConfig;

/// What a machine has for the processes on it.
struct HostResources {
  Bytes memory = kUnlimited;
  Bytes drives = kUnlimited;  ///< free in the run's NVMe folders
  Bytes device = kUnlimited;  ///< memory of a GPU, if the run is planned for another machine
};

/// Who a machine's memory and drives are for.
struct HostShare {
  Bytes machine = 0;          ///< bytes of memory that its processes may have
  Bytes reserve = 0;          ///< of a rank's share: for code, the process, the system and the page cache
  Bytes scratch = 0;          ///< of a rank's share: to load, save and hash state
  Bytes kernels = 0;          ///< of a rank's share: the scratch of the CPU device's kernels
  Bytes for_tiers = 0;        ///< the rest of the share: at least a page
  Bytes drives = kUnlimited;  ///< of a rank's share
  Bytes device = kUnlimited;  ///< as HostResources has it
  int ranks = 1;              ///< of the run on it

  /// One line: where the memory goes.
  std::string describe() const;
};
/// `kernels` is what each rank's kernels set up in this memory. Throws ConfigError if a budget is unlimited
/// and the machine has too little for the processes themselves.
HostShare share_of_host(const RunConfig& config, const Model& model, const HostResources& host, int ranks,
                        Bytes kernels = 0);

/// Host memory besides the plan's: a unit is loaded, saved and hashed as fp32 values.
Bytes scratch_bytes(const RunConfig& config, const Model& model);

/// Sets budgets that are unlimited and whose tier is this memory or these drives: memory.nvme.size,
/// memory.host, and memory.device. On the CPU the last two are of one memory: what one is not given is
/// the other's, and if both are unlimited each is half.
void set_unlimited(MemorySection& memory, DeviceKind device, const HostShare& share);

/// What to say of budgets that the machine does not have; empty if it has them.
std::string warn_of_budgets(const RunConfig& config, const HostShare& share);

}  // namespace strata
