// Frozen tensors that several models of a run hold together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/run/execute/model_run.h"

namespace strata {

/// Each model fills in what it holds. So a model that begins with other values than one before it would
/// change those of that one.
class SharedFrozen {
 public:
  /// REQUIRES: the models outlive this.
  explicit SharedFrozen(const std::vector<std::unique_ptr<ModelRun>>& models);

  /// Whether models may hold something together: the same on all ranks, though some may hold nothing so.
  bool may_be_shared() const;
  /// After this model has its state, and before the next one gets its own. Throws ConfigError if it begins
  /// with other values than a model before it of what they hold together.
  void check(std::size_t model);

 private:
  using Place = std::pair<Tier, Bytes>;
  struct Filled {
    std::size_t model;
    std::uint64_t hash;
  };

  Place place_of(std::size_t model, const StateEntry& entry) const;

  const std::vector<std::unique_ptr<ModelRun>>& models_;
  std::map<Place, int> holders_;
  std::map<Place, Filled> filled_;  ///< of what several hold
};

}  // namespace strata
