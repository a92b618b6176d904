// The memory section of a run file: budgets of tiers, and what lives where.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/config/choices.h"

namespace strata {

struct MemorySection {
  Bytes device = kUnlimited;
  std::optional<Bytes> host;           ///< nothing: the tier is not used for model state
  std::vector<std::string> nvme_path;  ///< folders; empty: the tier is not used
  Bytes nvme_size = kUnlimited;
  NvmeEngine nvme_engine = NvmeEngine::automatic;
  bool nvme_verify = false;
  std::optional<Bytes> nvme_read_per_second, nvme_write_per_second;  ///< limits of the tier
  TierChoice parameters = TierChoice::automatic, optimizer_state = TierChoice::automatic,
             gradients = TierChoice::automatic, activations = TierChoice::automatic;
  ParameterFormat trained_as = ParameterFormat::precision, frozen_as = ParameterFormat::precision;
  friend bool operator==(const MemorySection&, const MemorySection&) = default;
};

}  // namespace strata
