// Dropout. base/dropout.h says which elements are kept.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// A unit has fewer dropouts.
constexpr std::uint32_t kSitesOfUnit = 1024;

/// out = x / (1 - probability) where it is kept, 0 where it is dropped. It is linear in x, so its gradient
/// is the same of the gradient, and nothing is saved.
class DropoutRule final : public Operator {
 public:
  enum : int { x, keys, out };

  /// `site`: its number among the unit's dropouts, less than kSitesOfUnit. `part`: of x's columns, that it
  /// is given.
  DropoutRule(double probability, std::uint32_t site, std::int64_t part = 0)
      : probability_(probability), site_(site), part_(part) {}

  std::string_view name() const override { return "dropout"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t c', 1 t, +t c"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  TokenOperands token_operands(const Node&) const override { return {.row_keys = keys}; }

 private:
  double probability_;
  std::uint32_t site_;
  std::int64_t part_;
};

}  // namespace strata
