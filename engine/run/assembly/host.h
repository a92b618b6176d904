// The memory and drives of the machine that a run is for: this one, or the one whose profile plan.machine
// names.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "engine/plan/cost/machine_document.h"
#include "engine/run/tune/host_budget.h"

namespace strata {

struct RunConfig;

/// This machine, with what is free in the run's folders of drives.
HostResources this_host(const RunConfig& config);

/// The machine that the run is planned for: that of the profile, or this one. Folders on drives tell how much
/// is free in them if they are there; else the profile says it.
HostResources planned_host(const RunConfig& config);

/// The bytes under a key of sizes of the profile at `path`. Nothing for an empty path, or if the profile
/// does not say. Throws ConfigError if the profile is none.
std::optional<Bytes> profiled_memory(const std::string& path, const char* key = kMemoryKey);
/// Whether the CPU of the profile at `path` has bf16 instructions. Nothing if the profile does not say.
std::optional<bool> profiled_bf16(const std::string& path);
/// Whether strata doctor has measured the rates of the profile at `path`.
bool profiled_as_measured(const std::string& path);

}  // namespace strata
