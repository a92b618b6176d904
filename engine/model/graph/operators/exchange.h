// What ranks that share a unit exchange within it. It stands between two segments of a pass: an instruction
// between ranks, not a kernel.
#pragma once

#include "engine/model/graph/operator.h"

namespace strata {

std::string_view name_of(ExchangeKind kind);

/// Stands in passes that are laid out over ranks only, so it is neither derived nor split again.
class ExchangeRule final : public Operator {
 public:
  enum : int { source, destination };  ///< an all_reduce has one

  explicit ExchangeRule(ExchangeKind kind, SharedBy shared = SharedBy::layer)
      : kind_(kind), shared_(shared) {}

  std::string_view name() const override { return name_of(kind_); }
  Touches touches() const override;
  std::string_view axes() const override;
  /// What was gathered is gathered again where it is needed: saved are the ranks' parts.
  bool is_cheap() const override { return kind_ == ExchangeKind::all_gather; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  std::optional<ExchangeForm> exchange_form() const override;

 private:
  ExchangeKind kind_;
  SharedBy shared_;
};

}  // namespace strata
