#include "engine/model/tensor_policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"

namespace strata {

namespace {

UpdateRule rule_of(const OptimizerSection& optimizer, OptimizerType type) {
  const bool has_momentum = momentum_of(optimizer) > 0;
  switch (type) {
    case OptimizerType::adamw:
      return UpdateRule::adamw;
    case OptimizerType::ademamix:
      return UpdateRule::ademamix;
    case OptimizerType::muon:
      return UpdateRule::muon;
    case OptimizerType::normuon:
      return UpdateRule::normuon;
    case OptimizerType::adagrad_rowwise:
      return UpdateRule::adagrad_rowwise;
    case OptimizerType::lion:
      return UpdateRule::lion;
    case OptimizerType::rmsprop:
      return has_momentum ? UpdateRule::rmsprop_momentum : UpdateRule::rmsprop;
    case OptimizerType::adagrad:
      return UpdateRule::adagrad;
    case OptimizerType::adafactor:
      return UpdateRule::adafactor;
    case OptimizerType::sgd:
      return has_momentum ? UpdateRule::sgd_momentum : UpdateRule::sgd;
  }
  return UpdateRule::adamw;
}

bool is_matrix(const TensorSpec& tensor) {
  return tensor.hf_shape.size() == 2;
}

/// As torch.optim.Muon's _adjust_lr.
double muon_scale(MuonScaling scaling, const TensorSpec& matrix) {
  const auto rows = static_cast<double>(matrix.hf_shape[0]),
             columns = static_cast<double>(matrix.hf_shape[1]);
  switch (scaling) {
    case MuonScaling::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonScaling::original:
      return std::sqrt(std::max(1.0, rows / columns));
    case MuonScaling::spectral_unclamped:
      return std::sqrt(rows / columns);
  }
  return 1;
}

/// NorMuon's steps have this root mean square, which is about that of AdamW's.
constexpr double kNorMuonScale = 0.2;

}  // namespace

std::string_view run_file_words(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::adamw:
      return "optimizer.type adamw";
    case UpdateRule::sgd:
      return "optimizer.type sgd without momentum";
    case UpdateRule::sgd_momentum:
      return "optimizer.type sgd with momentum";
    case UpdateRule::lion:
      return "optimizer.type lion";
    case UpdateRule::rmsprop:
      return "optimizer.type rmsprop without momentum";
    case UpdateRule::rmsprop_momentum:
      return "optimizer.type rmsprop with momentum";
    case UpdateRule::adagrad:
      return "optimizer.type adagrad";
    case UpdateRule::ademamix:
      return "optimizer.type ademamix";
    case UpdateRule::muon:
      return "optimizer.type muon";
    case UpdateRule::normuon:
      return "optimizer.type normuon";
    case UpdateRule::adagrad_rowwise:
      return "optimizer.type adagrad_rowwise";
    case UpdateRule::adafactor:
      return "optimizer.type adafactor";
  }
  return "";
}

std::string run_file_words(const UpdateRules& rules) {
  if (rules.size() == 1) return std::string(run_file_words(rules.begin()->first));
  std::vector<std::string> words;
  for (const auto& [rule, tensors] : rules)
    words.push_back(fmt::format("{} for {} tensors", run_file_words(rule), tensors));
  return fmt::format("{}", fmt::join(words, " and "));
}

TensorPolicies::TensorPolicies(const OptimizerSection& optimizer) : optimizer_(optimizer) {
  const OptimizerType type = orthogonalizes(optimizer.type) ? OptimizerType::adamw : optimizer.type;
  policies_ = {policy_of(type, true), policy_of(type, false)};
  for (const TensorGroup& group : optimizer.groups)
    groups_.push_back({group, NamePatterns("optimizer.groups", group.tensors)});
}

UpdatePolicy TensorPolicies::policy_of(OptimizerType type, bool is_matrix) const {
  const auto [beta1, beta2] = betas_of(optimizer_);
  const bool decays = is_matrix || optimizer_.decay == Decay::all;
  return {.rule = rule_of(optimizer_, type),
          .weight_decay = decays ? optimizer_.weight_decay : 0,
          .settings = {.beta1 = beta1,
                       .beta2 = beta2,
                       .epsilon = epsilon_of(optimizer_),
                       .alpha = alpha_of(optimizer_),
                       .momentum = momentum_of(optimizer_),
                       .beta3 = optimizer_.beta3,
                       .slow_warmup = optimizer_.slow_warmup,
                       .decay_rate = optimizer_.decay_rate,
                       .clip_threshold = optimizer_.clip_threshold}};
}

void TensorPolicies::decide(Unit& unit, const std::vector<bool>& frozen, bool is_block) {
  const bool is_of_matrices = orthogonalizes(optimizer_.type);
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    if (frozen[i]) continue;
    TensorSpec& tensor = unit.tensors[i];
    const bool is_of_adamw = is_of_matrices && !(is_block && is_matrix(tensor));
    OptimizerType type = is_of_adamw ? OptimizerType::adamw : optimizer_.type;
    std::vector<std::size_t> fitting;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].patterns.match(tensor.hf_name)) fitting.push_back(g);
    for (const std::size_t g : fitting) type = groups_[g].given.type.value_or(type);
    if (orthogonalizes(type) && !is_matrix(tensor)) {
      throw ConfigError(fmt::format(
          "optimizer.groups: {} has {} dimension{}, and {} updates matrices; name matrices only",
          tensor.hf_name, tensor.hf_shape.size(), tensor.hf_shape.size() == 1 ? "" : "s", word_of(type)));
    }
    UpdatePolicy policy = policy_of(type, is_matrix(tensor));
    if (type == OptimizerType::muon) policy.settings.scale = muon_scale(optimizer_.muon_scaling, tensor);
    if (type == OptimizerType::normuon) policy.settings.scale = kNorMuonScale;
    for (const std::size_t g : fitting) {
      const TensorGroup& given = groups_[g].given;
      if (given.schedule) policy.schedule = g + 1;
      policy.learning_rate_factor = given.learning_rate_factor.value_or(policy.learning_rate_factor);
      policy.weight_decay = given.weight_decay.value_or(policy.weight_decay);
    }
    tensor.policy = number_of(policy);
  }
}

std::size_t TensorPolicies::number_of(const UpdatePolicy& policy) {
  const auto found = std::ranges::find(policies_, policy);
  const auto number = index_of(policies_, found);
  if (found == policies_.end()) policies_.push_back(policy);
  return number;
}

void TensorPolicies::check(const Model& model) const {
  for (const Group& group : groups_) group.patterns.check(model);
}

}  // namespace strata
