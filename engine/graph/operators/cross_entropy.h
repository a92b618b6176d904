// The loss of predicted tokens.
#pragma once

#include "engine/graph/operator.h"
#include "engine/graph/unit_graph.h"

namespace strata {

/// losses[i] = log_sum_exp(logits[i, :]) - logits[i, targets[i]] (+ penalty); fp32 [1, rows]. penalty: fp32
/// [1, 1]; the node that makes it knows its gradient. `soft_cap`: as in CrossEntropy.
class CrossEntropyRule final : public Operator {
 public:
  enum : int { penalty, logits, targets, losses };

  explicit CrossEntropyRule(float soft_cap) : soft_cap_(soft_cap) {}

  std::string_view name() const override { return "cross_entropy"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes};
  }
  std::string_view axes() const override { return "1 1, t v^, 1 t, 1 t"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

  float soft_cap() const { return soft_cap_; }

 private:
  float soft_cap_;
};

/// The graph in which each loss of logits that have one of the axes is one of `parts` of them
/// (softmax_parts.h), so that ranks can have a part each.
UnitGraph split_losses(UnitGraph graph, std::span<const AxisName> axes, std::int64_t parts);

/// The losses, and the gradient of the step's mean loss in place of the logits.
class CrossEntropyGradientRule final : public GradientOperator {
 public:
  enum : int { penalty, logits, targets, losses, loss_scale };

  explicit CrossEntropyGradientRule(float soft_cap) : soft_cap_(soft_cap) {}

  std::string_view name() const override { return "cross_entropy_gradient"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::updates, Touch::reads, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override { return "1 1, t v^, 1 t, 1 t, 1 1"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  float soft_cap_;
};

}  // namespace strata
