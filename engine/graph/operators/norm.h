// Norms over rows, and over the heads of queries and keys.
#pragma once

#include "engine/graph/operator.h"

namespace strata {

/// out = norm(x) · weight (+ bias); or, with an addend, sum = x + addend and out = norm(sum) · weight (+
/// bias). Statistics, fp32 [1, rows]: the mean (layer norm only) and the reciprocal deviation.
class NormRule final : public Operator {
 public:
  enum : int { x, addend, sum, weight, bias, out, mean, deviation };

  NormRule(NormKind kind, float epsilon) : kind_(kind), epsilon_(epsilon) {}

  std::string_view name() const override { return "norm"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads,  Touch::writes, Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::writes};
  }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  Node again(const Node& node) const override;
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  NormKind kind_;
  float epsilon_;
};

/// The gradient of what was normalised (+ addend), and those of weight and bias.
class NormGradientRule final : public GradientOperator {
 public:
  enum : int {
    input,
    weight,
    mean,
    deviation,
    out_gradient,
    addend,
    input_gradient,
    weight_gradient,
    bias_gradient
  };

  explicit NormGradientRule(NormKind kind) : kind_(kind) {}

  std::string_view name() const override { return "norm_gradient"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,   Touch::reads,  Touch::reads,
            Touch::reads, Touch::writes, Touch::updates, Touch::updates};
  }
  std::vector<InPlace> in_place() const override {
    return {{input_gradient, addend}, {input_gradient, out_gradient}};
  }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  NormKind kind_;
};

/// An RMS norm of each head's columns: those of the first `query_heads` heads of x with one weight, those of
/// the rest with the other. deviation: fp32 [heads, rows]. The gradient of x takes the place of that of out.
class HeadNormRule final : public Operator {
 public:
  enum : int { x, query_weight, key_weight, out, deviation };

  HeadNormRule(float epsilon, std::int64_t query_heads) : epsilon_(epsilon), query_heads_(query_heads) {}

  std::string_view name() const override { return "head_norm"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::vector<InPlace> shares_gradient() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  float epsilon_;
  std::int64_t query_heads_;
};

/// In place on the gradient.
class HeadNormGradientRule final : public GradientOperator {
 public:
  enum : int { x, query_weight, key_weight, deviation, gradient, query_weight_gradient, key_weight_gradient };

  explicit HeadNormGradientRule(std::int64_t query_heads) : query_heads_(query_heads) {}

  std::string_view name() const override { return "head_norm_gradient"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads,   Touch::reads,   Touch::reads,  Touch::reads,
            Touch::updates, Touch::updates, Touch::updates};
  }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  std::int64_t query_heads_;
};

}  // namespace strata
