// Causal self-attention, and the rotation of queries and keys to their positions.
#pragma once

#include "engine/device/attention_calls.h"
#include "engine/model/graph/operator.h"

namespace strata {

/// log_sum_exp: fp32 [batch · heads, sequence]. places: optional, as in AttentionForward.
class AttentionRule final : public Operator {
 public:
  enum : int { query, key, value, out, log_sum_exp, places };

  /// Batch and sequence follow the microbatch, numbers of heads the operands.
  explicit AttentionRule(const AttentionShape& attention) : attention_(attention) {}

  std::string_view name() const override { return "attention"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override {
    return "(s p^) (g q d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, 1 (s p)";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  TokenOperands token_operands(const Node&) const override { return {.places = places}; }
  /// A ring (attention_ring.cpp).
  bool share_sequences(const Node& node, SequenceSharing& sharing) const override;
  std::vector<int> cached_operands() const override { return {key, value}; }
  bool decode(Kernels& kernels, const Operands& operands, const DecodeStep& step) const override;

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
    value_gradient,
    places
  };

  explicit AttentionGradientRule(const AttentionShape& attention) : attention_(attention) {}

  std::string_view name() const override { return "attention_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,  Touch::reads,  Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override {
    return "(s p^) (g q+ d^), (s p) (g d), (s p) (g d), (s p) (g q d), (s g q) p, (s p) (g q d), "
           "(s p) (g q d), (s p) (g d), (s p) (g d), 1 (s p)";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  bool share_sequences(const Node& node, SequenceSharing& sharing) const override;

 private:
  AttentionShape attention_;
};

/// Attention of a rank's tokens to those keys that have come to it in a step of a ring, joined to what it has
/// seen before (attention_ring.cpp). log_sum_exp: as in AttentionRule; out is fp32 if it is not the last
/// step's. Stands in passes over rings only, as an exchange does.
class RingAttentionRule final : public Operator {
 public:
  enum : int { query, key, value, before, log_sum_exp_before, out, log_sum_exp, places };

  RingAttentionRule(const AttentionShape& attention, std::int64_t step)
      : attention_(attention), step_(step) {}

  std::string_view name() const override { return "ring_attention"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,  Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override { return "t^ c^, t^ k^, t^ k^, t^ c^, h^ p^, t^ c^, h^ p^, 1 t"; }
  std::vector<InPlace> in_place() const override {
    return {{out, before}, {log_sum_exp, log_sum_exp_before}};
  }
  bool begins_segment() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  AttentionShape attention_;
  std::int64_t step_;
};

/// What those keys are to the gradients: the query's joins what it was before.
class RingAttentionGradientRule final : public GradientOperator {
 public:
  enum : int {
    query,
    key,
    value,
    out,
    log_sum_exp,
    out_gradient,
    query_gradient_before,
    query_gradient,
    key_gradient,
    value_gradient,
    places
  };

  RingAttentionGradientRule(const AttentionShape& attention, std::int64_t step)
      : attention_(attention), step_(step) {}

  std::string_view name() const override { return "ring_attention_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,  Touch::reads,  Touch::reads, Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override {
    return "t^ c^, t^ k^, t^ k^, t^ c^, h^ p^, t^ c^, t^ c^, t^ c^, t^ k^, t^ k^, 1 t";
  }
  std::vector<InPlace> in_place() const override { return {{query_gradient, query_gradient_before}}; }
  bool begins_segment() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;

 private:
  AttentionShape attention_;
  std::int64_t step_;
};

/// Rotates heads to their positions, or back, in place. cosine, sine: fp32 [sequence, rotated columns / 2];
/// places: optional, as in Rope.
class RopeRule final : public Operator {
 public:
  enum : int { x, cosine, sine, places };

  explicit RopeRule(std::int64_t head_dimension, bool inverse = false)
      : head_dimension_(head_dimension), inverse_(inverse) {}

  std::string_view name() const override { return inverse_ ? "rope_back" : "rope"; }
  Touches touches() const override { return {Touch::updates, Touch::reads, Touch::reads, Touch::reads}; }
  std::string_view axes() const override { return "(s p^) (h d^), r^ e^, r e, 1 (s p)"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  TokenOperands token_operands(const Node&) const override {
    return {.places = places, .cosine = cosine, .sine = sine};
  }

 private:
  std::int64_t head_dimension_;
  bool inverse_;
};

}  // namespace strata
