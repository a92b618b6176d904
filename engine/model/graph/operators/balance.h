// The auxiliary loss that keeps experts evenly busy (LoadBalance in expert_calls.h). It is one number of all
// layers of a microbatch. Each layer's forward pass adds to the microbatch's tally, fp32 [2, experts]. The
// head's passes make the loss from the tally, and each layer's backward pass makes its gradient.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

struct BalanceOptions {
  double coefficient = 0;   ///< 0: no such loss
  std::int64_t layers = 0;  ///< that have experts
  friend bool operator==(const BalanceOptions&, const BalanceOptions&) = default;
};

/// tally[0, e] += rows of expert e; tally[1, :] += sum over tokens of probabilities. As it makes nothing
/// else, it is never run again in a backward pass.
class TallyRule final : public Operator {
 public:
  enum : int { offsets, probabilities, tally };

  explicit TallyRule(const BalanceOptions& options) : options_(options) {}

  std::string_view name() const override { return "tally"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "1 o^, t^ e^, w^ e"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  /// The gradient of probabilities, from the tally when that is done: a row that counts for every token.
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  BalanceOptions options_;
};

/// gradient: fp32 [1, experts].
class BalanceGradientRule final : public GradientOperator {
 public:
  enum : int { tally, loss_scale, gradient };

  explicit BalanceGradientRule(const BalanceOptions& options) : options_(options) {}

  std::string_view name() const override { return "balance_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "w^ e^, 1 1, 1 e"; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  BalanceOptions options_;
};

/// loss: fp32 [1, 1], of the microbatch. Its gradient is TallyRule's.
class BalanceLossRule final : public Operator {
 public:
  enum : int { tally, loss };

  explicit BalanceLossRule(const BalanceOptions& options) : options_(options) {}

  std::string_view name() const override { return "balance_loss"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "w^ e^, 1 1"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}
  /// The tally of all ranks, which other units' gradients read, too.
  bool share_sequences(const Node& node, SequenceSharing& sharing) const override;

 private:
  BalanceOptions options_;
};

}  // namespace strata
