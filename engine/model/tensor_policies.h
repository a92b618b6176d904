// Which policy updates each tensor: that of matrices or of vectors, as the run file's optimizer section has
// it, with what optimizer.groups give for the tensor's name. Muon and NorMuon update matrices of
// blocks, and AdamW what else a run with one of them trains. UpdatePolicy::schedule is 0 for the run's, and
// the number of the group, from 1, for that of a group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/optimizer_section.h"
#include "engine/model/graph/unit.h"
#include "engine/model/name_patterns.h"
#include "optim/update_policy.h"

namespace strata {

/// How a run file asks for it: "optimizer.type sgd with momentum".
std::string_view run_file_words(UpdateRule rule);
/// And for several: "optimizer.type muon for 28 tensors and optimizer.type adamw for 13".
std::string run_file_words(const UpdateRules& rules);

class TensorPolicies {
 public:
  explicit TensorPolicies(const OptimizerSection& optimizer);

  /// Gives each of the unit's tensors that is not `frozen` its policy's number. Throws ConfigError if a group
  /// wants a rule of matrices for a tensor that is none.
  void decide(Unit& unit, const std::vector<bool>& frozen, bool is_block);
  /// By number. The first two are those of matrices and of vectors that no group fits.
  const std::vector<UpdatePolicy>& policies() const { return policies_; }
  /// Throws ConfigError if a pattern matches no trained tensor of the model, whose units were all decided on.
  void check(const Model& model) const;

 private:
  struct Group {
    TensorGroup given;
    NamePatterns patterns;
  };
  UpdatePolicy policy_of(OptimizerType type, bool is_matrix) const;
  std::size_t number_of(const UpdatePolicy& policy);

  OptimizerSection optimizer_;
  std::vector<UpdatePolicy> policies_;
  std::vector<Group> groups_;
};

}  // namespace strata
