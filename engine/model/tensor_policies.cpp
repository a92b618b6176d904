#include "engine/model/tensor_policies.h"

#include <algorithm>

#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"

namespace strata {

namespace {

UpdateRule rule_of(const OptimizerSection& optimizer) {
  const bool has_momentum = optimizer.momentum > 0;
  switch (optimizer.type) {
    case OptimizerType::adamw:
      return UpdateRule::adamw;
    case OptimizerType::ademamix:
      return UpdateRule::ademamix;
    case OptimizerType::lion:
      return UpdateRule::lion;
    case OptimizerType::rmsprop:
      return has_momentum ? UpdateRule::rmsprop_momentum : UpdateRule::rmsprop;
    case OptimizerType::adagrad:
      return UpdateRule::adagrad;
    case OptimizerType::sgd:
      return has_momentum ? UpdateRule::sgd_momentum : UpdateRule::sgd;
  }
  return UpdateRule::adamw;
}

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
  }
  return "";
}

TensorPolicies::TensorPolicies(const OptimizerSection& optimizer) {
  const auto [beta1, beta2] = betas_of(optimizer);
  const UpdatePolicy of_matrices = {.rule = rule_of(optimizer),
                                    .weight_decay = optimizer.weight_decay,
                                    .settings = {.beta1 = beta1,
                                                 .beta2 = beta2,
                                                 .epsilon = epsilon_of(optimizer),
                                                 .alpha = alpha_of(optimizer),
                                                 .momentum = optimizer.momentum,
                                                 .beta3 = optimizer.beta3,
                                                 .slow_warmup = optimizer.slow_warmup}};
  policies_ = {of_matrices, of_matrices};
  if (optimizer.decay == Decay::matrices) policies_[1].weight_decay = 0;
  for (const TensorGroup& group : optimizer.groups)
    groups_.push_back({group, NamePatterns("optimizer.groups", group.tensors)});
}

void TensorPolicies::decide(Unit& unit) {
  for (TensorSpec& tensor : unit.tensors) {
    if (tensor.flat == Flat::frozen) continue;
    const bool is_matrix = tensor.hf_shape.size() > 1;
    UpdatePolicy policy = policies_[is_matrix ? 0 : 1];
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      auto& [given, patterns] = groups_[g];
      if (!patterns.match(tensor.hf_name)) continue;
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
