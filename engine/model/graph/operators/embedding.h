// Tokens, and the positions that are learned, to vectors.
#pragma once

#include "engine/device/row_calls.h"
#include "engine/model/graph/operator.h"

namespace strata {

/// out[i, :] = table[tokens[i], :] (+ positions[i mod sequence, :], or positions[places[i], :]). Of a part of
/// the table it makes a partial sum.
class EmbeddingRule final : public Operator {
 public:
  enum : int { tokens, table, positions, out, places };

  /// `padding_token`: its row of the table gets no gradient; kNoRow: none is so. `first_row`: as in
  /// EmbeddingForward.
  explicit EmbeddingRule(std::int32_t padding_token, FirstRow first_row = {})
      : padding_token_(padding_token), first_row_(first_row) {}

  std::string_view name() const override { return "embedding"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::reads};
  }
  std::string_view axes() const override { return "1 (s p^), +v+ c, +l^ c, +(s p) c, 1 (s p)"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  TokenOperands token_operands(const Node& node) const override;
  bool decode(Kernels& kernels, const Operands& operands, const DecodeStep& step) const override;

 private:
  std::int32_t padding_token_;
  FirstRow first_row_;
};

class EmbeddingGradientRule final : public GradientOperator {
 public:
  enum : int { tokens, out_gradient, table_gradient };

  explicit EmbeddingGradientRule(std::int32_t padding_token, FirstRow first_row = {})
      : padding_token_(padding_token), first_row_(first_row) {}

  std::string_view name() const override { return "embedding_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "1 (s+ p^), (s p) c, v c"; }
  std::shared_ptr<const Operator> of_part(std::string_view variable, const AxisPart& part) const override;
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  std::int32_t padding_token_;
  FirstRow first_row_;
};

class PositionsGradientRule final : public GradientOperator {
 public:
  enum : int { tokens, out_gradient, positions_gradient, places };

  std::string_view name() const override { return "positions_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::updates, Touch::reads}; }
  std::string_view axes() const override { return "1 (s+ p^), (s p) c, l^ c, 1 (s p)"; }
  void run(Kernels& kernels, const Operands& operands) const override;
};

}  // namespace strata
