// Rows of a weight that have magnitudes of their own beside their direction (DoRA, Liu et al. 2024). With an
// update, W' = W + scale · B · A, and each row of W' is scaled to the length m. The norms count as
// constants: gradients go through the product with W' and to m.
#pragma once

#include "engine/model/graph/operators/linear.h"

namespace strata {

/// squares = Σ x² of each column, fp32 [1, columns].
class ColumnSquaresRule final : public Operator {
 public:
  enum : int { x, squares };

  std::string_view name() const override { return "column_squares"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t+ c, 1 c"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}
};

/// What an update adds to the squares of rows, fp32 [1, outputs], without W' being made. dots = 2 · scale · Σ
/// over the rank of product · up. product = W · downᵀ + scale / 2 · up · gram. gram = down · downᵀ. All but
/// dots have the run's precision.
class MagnitudeDotsRule final : public Operator {
 public:
  enum : int { weight, down, up, gram, product, dots };

  /// `order`: that of the weight.
  MagnitudeDotsRule(WeightOrder order, float scale) : order_(order), scale_(scale) {}

  std::string_view name() const override { return "magnitude_dots"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override {
    return order_ == WeightOrder::linear ? "+n k+, r^ k, n r, +r r, +n r, +1 n"
                                         : "+k+ n, r^ k, n r, +r r, +n r, +1 n";
  }
  void run(Kernels& kernels, const Operands& operands) const override;
  double flops(const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}

 private:
  WeightOrder order_;
  float scale_;
};

/// norms = 1 / √(squares + dots), 0 for a row of zeros, factors = magnitude · norms; all but the magnitude
/// fp32, all [1, outputs].
class MagnitudeFactorsRule final : public Operator {
 public:
  enum : int { squares, dots, magnitude, norms, factors };

  std::string_view name() const override { return "magnitude_factors"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override { return "1 n, 1 n, 1 n, 1 n, 1 n"; }
  void run(Kernels& kernels, const Operands& operands) const override;
  /// ColumnScaleRule's is that by the magnitude.
  void differentiate(const Node&, Derivation&) const override {}
};

/// out = x · factors (+ bias), of a column each. Magnitude and norms, whose product the factors are, are read
/// by derivatives; without them the factors are constants.
class ColumnScaleRule final : public Operator {
 public:
  enum : int { x, magnitude, norms, factors, bias, out };

  std::string_view name() const override { return "column_scale"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::reads, Touch::writes};
  }
  std::string_view axes() const override { return "t n, 1 n, 1 n, 1 n, 1 n, t n"; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
};

/// magnitude_gradient += norms · Σ over rows of x · out_gradient.
class MagnitudeGradientRule final : public GradientOperator {
 public:
  enum : int { x, out_gradient, norms, magnitude_gradient };

  std::string_view name() const override { return "magnitude_gradient"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::updates}; }
  std::string_view axes() const override { return "t+ n, t n, 1 n, 1 n"; }
  void run(Kernels& kernels, const Operands& operands) const override;
};

}  // namespace strata
