// Which layers have adapters, as `adapter` of a run file says it, in PEFT's words.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/config/adapter_section.h"
#include "engine/model/adapter_patterns.h"
#include "engine/model/graph/unit_builder.h"

namespace strata {

class AdapterTargets {
 public:
  /// `adapter` must outlive it. Throws ConfigError as AdapterPatterns does.
  explicit AdapterTargets(const AdapterSection& adapter)
      : adapter_(adapter), patterns_(adapter, "adapter."), is_used_(adapter.targets.size()) {}

  /// A block with its adapters; the same block if none of its layers is a target.
  UnitBuilder::Built adapt(UnitBuilder::Built block);
  /// Throws ConfigError if a target is no layer of the blocks, which were all given, or if a pattern of ranks
  /// or alphas counts for none of the targets.
  void check() const;

 private:
  bool is_target(const std::string& layer);

  const AdapterSection& adapter_;
  AdapterPatterns patterns_;
  std::vector<bool> is_used_;
  std::set<std::string> layers_ = {};  ///< last parts of the names of layers that may have adapters
};

/// What of two runs' adapters differs, as run files say it; empty: nothing that matters to their state.
std::string adapter_difference(const AdapterSection& stored, const AdapterSection& wanted);

}  // namespace strata
