// Norms over rows, and over the heads of queries and keys.
#pragma once

#include "engine/device/norm_calls.h"
#include "engine/model/graph/operator.h"

namespace strata {

struct NormOptions {
  NormKind kind = NormKind::rms_norm;
  double epsilon = 1e-5;
  bool unit_offset = false;  ///< the factor is 1 + weight
};

/// out = norm(x) · weight (+ bias); or, with an addend, sum = x + addend and out = norm(sum) · weight (+
/// bias). Statistics, fp32 [1, rows]: the mean (layer norm only) and the reciprocal deviation.
class NormRule final : public Operator {
 public:
  enum : int { x, addend, sum, weight, bias, out, mean, deviation };

  explicit NormRule(const NormOptions& options) : options_(options) {}

  std::string_view name() const override { return "norm"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads,  Touch::writes, Touch::reads,
            Touch::reads, Touch::writes, Touch::writes, Touch::writes};
  }
  std::string_view axes() const override { return "t c^, t c, t c, 1 c, 1 c, t c, 1 t, 1 t"; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  Node again(const Node& node) const override;
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  FusionForm fusion_form() const override {
    return {.addend = AddendForm{.x = x, .addend = addend, .sum = sum}};
  }
  bool share_columns(const Node& node, const ColumnSharing& sharing, UnitGraph& graph) const override;

 private:
  NormOptions options_;
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

  explicit NormGradientRule(const NormOptions& options) : options_(options) {}

  std::string_view name() const override { return "norm_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads,  Touch::reads,   Touch::reads,  Touch::reads,
            Touch::reads, Touch::writes, Touch::updates, Touch::updates};
  }
  std::string_view axes() const override { return "t+ c^, 1 c, 1 t, 1 t, t c, t c, t c, 1 c, 1 c"; }
  std::vector<InPlace> in_place() const override {
    return {{input_gradient, addend}, {input_gradient, out_gradient}};
  }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  NormOptions options_;
};

// An RMS norm whose columns ranks share out, so that they add up one number per row each way: squares,
// deviation, out; and back projections, input_gradient. All gradients are SharedNormRule's.

/// squares = Σ x² of each row, fp32 [1, rows].
class RowSquaresRule final : public Operator {
 public:
  enum : int { x, squares };

  std::string_view name() const override { return "row_squares"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t c+, 1 t"; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}
};

/// deviation = 1 / √(squares / columns + ε), fp32 [1, rows].
class RowDeviationRule final : public Operator {
 public:
  enum : int { squares, deviation };

  /// `columns`: those of all ranks.
  RowDeviationRule(double epsilon, std::int64_t columns) : epsilon_(epsilon), columns_(columns) {}

  std::string_view name() const override { return "row_deviation"; }
  Touches touches() const override { return {Touch::reads, Touch::writes}; }
  /// Whole: ranks that have parts of the tokens add up a number for each, which is less than two exchanges.
  std::string_view axes() const override { return "1 t^, 1 t"; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node&, Derivation&) const override {}

 private:
  double epsilon_;
  std::int64_t columns_;
};

/// out = x · deviation · weight.
class SharedNormRule final : public Operator {
 public:
  enum : int { x, deviation, weight, out };

  /// `columns`: those of all ranks.
  SharedNormRule(const NormOptions& options, std::int64_t columns) : options_(options), columns_(columns) {}

  std::string_view name() const override { return "shared_norm"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t c, 1 t, 1 c, t c"; }
  std::vector<InPlace> in_place() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  bool goes_by_rows() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;

 private:
  NormOptions options_;
  std::int64_t columns_;
};

/// projections = Σ x · out_gradient · weight of each row, fp32 [1, rows].
class RowProjectionRule final : public GradientOperator {
 public:
  enum : int { x, out_gradient, weight, projections };

  explicit RowProjectionRule(const NormOptions& options) : options_(options) {}

  std::string_view name() const override { return "row_projection"; }
  Touches touches() const override { return {Touch::reads, Touch::reads, Touch::reads, Touch::writes}; }
  std::string_view axes() const override { return "t c+, t c, 1 c, 1 t"; }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  NormOptions options_;
};

class SharedNormGradientRule final : public GradientOperator {
 public:
  enum : int { x, weight, deviation, projections, out_gradient, addend, input_gradient, weight_gradient };

  SharedNormGradientRule(const NormOptions& options, std::int64_t columns)
      : options_(options), columns_(columns) {}

  std::string_view name() const override { return "shared_norm_gradient"; }
  Touches touches() const override {
    return {Touch::reads, Touch::reads, Touch::reads,  Touch::reads,
            Touch::reads, Touch::reads, Touch::writes, Touch::updates};
  }
  std::string_view axes() const override { return "t+ c, 1 c, 1 t, 1 t, t c, t c, t c, 1 c"; }
  std::vector<InPlace> in_place() const override {
    return {{input_gradient, addend}, {input_gradient, out_gradient}};
  }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  NormOptions options_;
  std::int64_t columns_;
};

/// The norm (RMS) of each head's columns, and their rotation to their positions if tables are given. In front
/// stand `queries_per_key` heads for each one of the rest; they have one weight, the rest has the other.
/// deviation: fp32 [heads, rows]; cosine, sine, places: as RopeRule's. The gradient of x takes the place of
/// that of out.
class HeadNormRule final : public Operator {
 public:
  enum : int { x, query_weight, key_weight, out, deviation, cosine, sine, places };

  HeadNormRule(const NormOptions& options, std::int64_t queries_per_key)
      : options_(options), queries_per_key_(queries_per_key) {}

  std::string_view name() const override { return "head_norm"; }
  Touches touches() const override {
    return {Touch::reads,  Touch::reads, Touch::reads, Touch::writes,
            Touch::writes, Touch::reads, Touch::reads, Touch::reads};
  }
  std::string_view axes() const override {
    return "(s p^) (g q^ d^)|(g d), 1 d, 1 d, (s p) (g q d)|(g d), (g q)|g (s p), r^ e^, r e, 1 (s p)";
  }
  std::vector<InPlace> shares_gradient() const override { return {{out, x}}; }
  bool is_cheap() const override { return true; }
  void run(Kernels& kernels, const Operands& operands) const override;
  void differentiate(const Node& node, Derivation& derivation) const override;
  TokenOperands token_operands(const Node& node) const override;

 private:
  NormOptions options_;
  std::int64_t queries_per_key_;
};

/// In place on the gradient, which is turned back first if tables are given.
class HeadNormGradientRule final : public GradientOperator {
 public:
  enum : int {
    x,
    query_weight,
    key_weight,
    deviation,
    gradient,
    query_weight_gradient,
    key_weight_gradient,
    cosine,
    sine,
    places
  };

  HeadNormGradientRule(const NormOptions& options, std::int64_t queries_per_key)
      : options_(options), queries_per_key_(queries_per_key) {}

  std::string_view name() const override { return "head_norm_gradient"; }
  Touches touches() const override {
    return {Touch::reads,   Touch::reads,   Touch::reads, Touch::reads, Touch::updates,
            Touch::updates, Touch::updates, Touch::reads, Touch::reads, Touch::reads};
  }
  std::string_view axes() const override {
    return "(s+ p^) (g+ q^ d^)|(g d), 1 d, 1 d, (g q)|g (s p), (s p) (g q d)|(g d), 1 d, 1 d, r^ e^, r e, "
           "1 (s p)";
  }
  void run(Kernels& kernels, const Operands& operands) const override;

 private:
  NormOptions options_;
  std::int64_t queries_per_key_;
};

}  // namespace strata
