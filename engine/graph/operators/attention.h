// Causal self-attention, and the rotation of queries and keys to their positions.
#pragma once

#include "engine/graph/operator.h"

namespace strata {

/// log_sum_exp: fp32 [batch · heads, sequence].
class AttentionRule final : public Operator {
 public:
  enum : int { query, key, value, out, log_sum_exp };

  /// Batch and sequence follow the microbatch, numbers of heads the operands.
  explicit AttentionRule(const AttentionShape& attention) : attention_(attention) {}

  std::string_view name() const override { return "attention"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override {
    return "(s p^) (g q d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  AttentionShape attention_;
};

class AttentionGradientRule final : public GradientOperator {
 public:
  enum : int {
    query,
    key,
    value,
    out,
    log_sum_exp,
    out_gradient,
    query_gradient,
    key_gradient,
    value_gradient
  };

  explicit AttentionGradientRule(const AttentionShape& attention) : attention_(attention) {}

  std::string_view name() const override { return "attention_gradient"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,  Touch::reads, Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override {
    return "(s p^) (g q+ d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, (s p) (g q d), "
           "(s p) (g q d), (s p) (g d), (s p) (g d)";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;

 private:
  AttentionShape attention_;
};

/// Rotates heads to their positions, or back, in place. cosine, sine: fp32 [sequence, head_dimension / 2].
class RopeRule final : public Operator {
 public:
  enum : int { x, cosine, sine };

  explicit RopeRule(std::int64_t head_dimension, bool inverse = false)
      : head_dimension_(head_dimension), inverse_(inverse) {}

  std::string_view name() const override { return inverse_ ? "rope_back" : "rope"; }
  std::vector<Touch> touches() const override { return {Touch::updates, Touch::reads, Touch::reads}; }
  std::string_view axes() const override { return "(s p) (h d^), p e^, p e"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  std::int64_t head_dimension_;
  bool inverse_;
};

}  // namespace strata
