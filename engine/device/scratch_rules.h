// What a device's kernels need for each call, known without the device, and what a whole run needs: its calls
// are given to a ScratchMeter.
#pragma once

#include "engine/device/kernels.h"

namespace strata {

/// The scratch of each kind of call that needs any, on some device; kinds that are not here need none. It
/// follows from shapes, strides and dtypes: pointers say only what is given and are not followed. The kernels
/// size their memory by the same functions.
class ScratchRules {
 public:
  virtual ~ScratchRules() = default;

  virtual ScratchBytes of(const Product&) const = 0;
  virtual ScratchBytes of(const NormForward&) const = 0;
  virtual ScratchBytes of(const NormBackward&) const = 0;
  virtual ScratchBytes of(const AttentionForward&) const = 0;
  virtual ScratchBytes of(const AttentionBackward&) const = 0;
  virtual ScratchBytes of(const CrossEntropy&) const = 0;
  virtual ScratchBytes of(const EmbeddingBackward&) const = 0;
  virtual ScratchBytes of_column_sums(const Matrix& x) const = 0;
  virtual ScratchBytes of_sum_of_squares(const Matrix& x) const = 0;

  /// All that a device sets up for kernels whose calls need at most `largest`.
  virtual std::vector<ScratchPart> parts(const ScratchBytes& largest) const = 0;
};

/// Kernels that compute nothing and keep the largest need of the calls that they get. Operands may point
/// anywhere.
class ScratchMeter final : public Kernels {
 public:
  /// `rules` outlive this object.
  explicit ScratchMeter(const ScratchRules& rules) : rules_(rules) {}
  const ScratchBytes& largest() const { return largest_; }

  void reserve_scratch(const ScratchBytes&) override {}
  Bytes scratch_bytes() const override { return 0; }

  void matmul(const Product& call) override { largest_.raise(rules_.of(call)); }
  void add_column_sums(const Matrix& x, const Matrix&) override { largest_.raise(rules_.of_column_sums(x)); }
  void norm(const NormForward& call) override { largest_.raise(rules_.of(call)); }
  void norm_backward(const NormBackward& call) override { largest_.raise(rules_.of(call)); }
  void attention(const AttentionForward& call) override { largest_.raise(rules_.of(call)); }
  void attention_backward(const AttentionBackward& call) override { largest_.raise(rules_.of(call)); }
  void rope(const Rope&) override {}
  void gelu(const Matrix&, const Matrix&) override {}
  void gelu_backward(const Matrix&, const Matrix&, const Matrix&) override {}
  void swiglu(const Matrix&, const Matrix&) override {}
  void swiglu_backward(const Matrix&, const Matrix&, const Matrix&) override {}
  void embedding(std::span<const std::int32_t>, const Matrix&, const Matrix&, std::int64_t,
                 const Matrix&) override {}
  void embedding_backward(const EmbeddingBackward& call) override { largest_.raise(rules_.of(call)); }
  void cross_entropy(const CrossEntropy& call) override { largest_.raise(rules_.of(call)); }
  void add(const Matrix&, const Matrix&, const Matrix&) override {}
  void cast(const Matrix&, const Matrix&) override {}
  void zero(const Matrix&) override {}
  void copy_rows(const Matrix&, std::span<const std::int32_t>, const Matrix&) override {}
  void sum_rows(const RowSum&) override {}
  void adamw(const AdamWUpdate&) override {}
  void sum_of_squares(const Matrix& x, double*) override { largest_.raise(rules_.of_sum_of_squares(x)); }

 private:
  const ScratchRules& rules_;
  ScratchBytes largest_;
};

}  // namespace strata
