// Mixtures of experts: which experts a token goes to, rows sorted by expert, a product per expert, and the
// sum of what a token's experts say. Counts of rows are data; sizes are those of `top_k` rows for each token.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

/// experts: int32 [1, tokens · top_k]; probabilities fp32 [tokens, experts]; weights fp32 [tokens, top_k].
class RouteRule final : public Operator {
 public:
  enum : int { logits, probabilities, experts, weights };

  explicit RouteRule(bool normalise) : normalise_(normalise) {}

  std::string_view name() const override { return "route"; }
  Touches touches() const override { return {Touch::reads, Touch::writes, Touch::writes, Touch::writes}; }
  std::string_view axes() const override { return "t e^, t e, 1 (t k^), t k"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  bool decides_by(int operand) const override { return operand == logits; }

 private:
  bool normalise_;
};

class RouteGradientRule final : public GradientOperator {
 public:
  /// probabilities_gradient: what all rows have from elsewhere, fp32 [1, experts]; or nothing.
  enum : int { probabilities, experts, weights, weights_gradient, probabilities_gradient, logits_gradient };

  explicit RouteGradientRule(bool normalise) : normalise_(normalise) {}

  std::string_view name() const override { return "route_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::writes};
  }
  std::string_view axes() const override { return "t e^, 1 (t k^), t k, t k, 1 e, t e"; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  bool normalise_;
};

/// Where each row stands once rows are sorted by expert: sources, places int32 [1, tokens · top_k], offsets
/// int32 [1, experts + 1].
class GroupRowsRule final : public Operator {
 public:
  enum : int { experts, sources, places, offsets };

  explicit GroupRowsRule(std::int64_t top_k) : top_k_(top_k) {}

  std::string_view name() const override { return "group_rows"; }
  Touches touches() const override { return {Touch::reads, Touch::writes, Touch::writes, Touch::writes}; }
  std::string_view axes() const override { return "1 (t^ k^), 1 r^, 1 (t k), 1 o^"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}

 private:
  std::int64_t top_k_;
};

/// out[i, :] = x[sources[i], :].
class SortRowsRule final : public Operator {
 public:
  enum : int { x, sources, places, out };

  std::string_view name() const override { return "sort_rows"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+t^ c, 1 r, 1 (t k^), +r c"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

/// A product for the rows of each expert: out = x · Wᵀ for a weight [experts · outputs, inputs], or, not
/// transposed, x · W: the gradient.
class ExpertProductRule final : public Operator {
 public:
  enum : int { x, offsets, weight, out };

  explicit ExpertProductRule(bool transposed = true) : transposed_(transposed) {}

  std::string_view name() const override { return "expert_product"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override {
    return transposed_ ? "+r^ c+, 1 o^, (e^ n) c, +r n" : "+r^ n+, 1 o^, (e^ n) c, +r c";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  bool transposed_;
};

class ExpertWeightGradientRule final : public GradientOperator {
 public:
  enum : int { x, offsets, out_gradient, weight_gradient };

  std::string_view name() const override { return "expert_weight_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "r^ c, 1 o^, r n, (e^ n) c"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
};

/// out[t, :] = Σ weights[t, s] · x[places[t · top_k + s], :]; weights that are not given count as 1.
class CombineRule final : public Operator {
 public:
  enum : int { x, places, weights, out };

  std::string_view name() const override { return "combine"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "+r^ c, 1 (t^ k^), t k, +t c"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

class CombineGradientRule final : public GradientOperator {
 public:
  enum : int { x, places, weights, out_gradient, x_gradient, weights_gradient };

  std::string_view name() const override { return "combine_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override { return "+r^ c+, 1 (t^ k^), t k, t c, r c, +t k"; }
  std::vector<InPlace> in_place() const override { return {{x_gradient, x}}; }
  void run(Kernels& kernels, const Operands& operands) const override;
};

}  // namespace strata
