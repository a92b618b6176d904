// The loss of predicted tokens.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// losses[i] = log_sum_exp(logits[i, :]) - logits[i, targets[i]] (+ penalty); fp32 [1, rows]. penalty: fp32
/// [1, 1]; the node that makes it knows its gradient. `soft_cap`: as in CrossEntropy.
class CrossEntropyRule final : public Operator {
 public:
  enum : int { penalty, logits, targets, losses };

  explicit CrossEntropyRule(float soft_cap) : soft_cap_(soft_cap) {}

  std::string_view name() const override { return "cross_entropy"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "1 1, t v^, 1 t, 1 t"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  std::optional<LossForm> loss_form() const override {
    return LossForm{.logits = logits, .losses = losses, .soft_cap = soft_cap_};
  }
  /// A loss of as many parts of the logits as there are ranks (softmax_parts.h).
  bool share_columns(const Node& node, const ColumnSharing& sharing, UnitGraph& graph) const override;

 private:
  float soft_cap_;
};

/// The losses, and the gradient of the step's mean loss in place of the logits.
class CrossEntropyGradientRule final : public GradientOperator {
 public:
  enum : int { penalty, logits, targets, losses, loss_scale };

  explicit CrossEntropyGradientRule(float soft_cap) : soft_cap_(soft_cap) {}

  std::string_view name() const override { return "cross_entropy_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::updates, Touch::reads, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override { return "1 1, t v^, 1 t, 1 t, 1 1"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  float soft_cap_;
};

}  // namespace strata
