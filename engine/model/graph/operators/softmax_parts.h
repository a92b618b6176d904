// The loss of predicted tokens whose logits lie in several parts, side by side. It is what CrossEntropyRule
// makes of the whole logits. Each part gives a few statistics of each row, and the statistics of all ranks'
// parts are put together by a sum.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// statistics: fp32 [rows, kSoftmaxStatistics · parts]; those of parts that are another rank's are zeros. The
/// gradient of the step's mean loss takes the place of the logits.
class SoftmaxPartsRule final : public Operator {
 public:
  enum : int { logits, targets, statistics };

  explicit SoftmaxPartsRule(float soft_cap, const AxisPart& part = {}) : soft_cap_(soft_cap), part_(part) {}

  std::string_view name() const override { return "softmax_parts"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t v+, 1 t, t c^"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  float soft_cap_;
  AxisPart part_;
};

/// losses as CrossEntropyRule makes them, from the statistics of all parts. A backward pass makes them, too.
class PartsLossRule final : public Operator {
 public:
  enum : int { penalty, statistics, losses };

  std::string_view name() const override { return "parts_loss"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "1 1, t c^, 1 t"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

class PartsGradientRule final : public GradientOperator {
 public:
  enum : int { logits, targets, statistics, loss_scale };

  explicit PartsGradientRule(float soft_cap, const AxisPart& part = {}) : soft_cap_(soft_cap), part_(part) {}

  std::string_view name() const override { return "parts_gradient"; }
  Touches touches() const override { return {Touch::updates, Touch::reads, Touch::reads, Touch::reads}; }
  std::string_view axes() const override { return "t v, 1 t, t c^, 1 1"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  float soft_cap_;
  AxisPart part_;
};

}  // namespace strata
