// Some rows of what the unit before has made.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// out[i, :] = x[rows[i], :], or zeros where x has no such row. Of a part of the rows it makes a partial sum.
class TakeRowsRule final : public Operator {
 public:
  enum : int { x, rows, out };

  /// x is the `part`-th of equal parts of all rows, which `rows` counts.
  explicit TakeRowsRule(std::int64_t part = 0) : part_(part) {}

  std::string_view name() const override { return "take_rows"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t+ c, 1 s^, +s c"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  std::int64_t part_;
};

}  // namespace strata
