// Which tensors are frozen: those whose names match a pattern of train.freeze.
#pragma once

#include <string>
#include <vector>

#include "engine/model/graph/unit.h"
#include "engine/model/name_patterns.h"

namespace strata {

class FreezePatterns {
 public:
  explicit FreezePatterns(const std::vector<std::string>& patterns) : patterns_("train.freeze", patterns) {}

  /// One entry for each of the unit's tensors.
  std::vector<bool> find_frozen(const Unit& unit);
  /// Throws ConfigError if a pattern matches no tensor of the model, whose units were all asked for, or if
  /// nothing is left to train.
  void check(const Model& model) const;

 private:
  NamePatterns patterns_;
};

/// A sentence's part that says which tensor `stored` and `model.freeze` freeze differently; empty if both
/// freeze the same tensors.
std::string freeze_difference(const std::vector<std::string>& stored, const Model& model);

}  // namespace strata
