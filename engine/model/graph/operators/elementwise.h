// Sums, multiples and copies.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// out = a + b; what is not given counts as zeros.
class AdditionRule final : public Operator {
 public:
  enum : int { a, b, out };

  std::string_view name() const override { return "add"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t c, +t c, +t c"; }
  std::vector<InPlace> in_place() const override { return {{out, a}, {out, b}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  FusionForm fusion_form() const override { return {.sum = SumForm{.a = a, .b = b, .out = out}}; }
  /// As the addend of what reads the sum.
  std::optional<Node> fuse_next(const UnitGraph& graph, const Node& node, const Node& next) const override;
};

/// out = factor · x.
class ScaleRule final : public Operator {
 public:
  enum : int { x, out };

  explicit ScaleRule(float factor) : factor_(factor) {}

  std::string_view name() const override { return "scale"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t c, +t c"; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  float factor_;
};

/// x = 0.
class ZeroRule final : public Operator {
 public:
  enum : int { x };

  std::string_view name() const override { return "zero"; }
  Touches touches() const override { return {Touch::writes}; }
  std::string_view axes() const override { return "t^ c"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}
};

/// out = x.
class CopyRule final : public Operator {
 public:
  enum : int { x, out };

  std::string_view name() const override { return "copy"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t c, +t c"; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

}  // namespace strata
