// Tokens, and the positions that are learned, to vectors.
#pragma once

#include "engine/graph/operator.h"

namespace strata {

/// out[i, :] = table[tokens[i], :] (+ positions[i mod sequence, :]).
class EmbeddingRule final : public Operator {
 public:
  enum : int { tokens, table, positions, out };

  /// `padding_token`: its row of the table gets no gradient; kNoRow: none is so.
  explicit EmbeddingRule(std::int32_t padding_token) : padding_token_(padding_token) {}

  std::string_view name() const override { return "embedding"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes};
  }
  std::string_view axes() const override { return "1 (s p^), v^ c, l^ c, (s p) c"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  std::int32_t padding_token_;
};

class EmbeddingGradientRule final : public GradientOperator {
 public:
  enum : int { tokens, out_gradient, table_gradient, positions_gradient };

  explicit EmbeddingGradientRule(std::int32_t padding_token) : padding_token_(padding_token) {}

  std::string_view name() const override { return "embedding_gradient"; }
  std::vector<Touch> touches() const override {
    return {Touch::reads, Touch::reads, Touch::updates, Touch::updates};
  }
  std::string_view axes() const override { return "1 (s+ p^), (s p) c, v^ c, l^ c"; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  std::int32_t padding_token_;
};

}  // namespace strata
