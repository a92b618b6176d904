// Every kernel as plain scalar loops with sums in double precision: the oracle that the CPU and CUDA devices
// are tested against, and a device for tests of model code. Slow on purpose. Unlike the fast devices it
// checks the shapes of all operands on every call (std::logic_error), and it may allocate a row of scratch.
// Stateless: usable from any thread.
#pragma once

#include "engine/device/kernels.h"

namespace strata {

class ReferenceKernels : public Kernels {
 public:
  void matmul(const Product& product) override;
  void add_column_sums(const Matrix& x, const Matrix& gradient) override;

  void norm(const NormForward& norm) override;
  void norm_backward(const NormBackward& norm) override;
  void attention(const AttentionForward& attention) override;
  void attention_backward(const AttentionBackward& attention) override;
  void rope(const Rope& rope) override;

  void gelu(const Matrix& x, const Matrix& out) override;
  void gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) override;
  void swiglu(const Matrix& gate_up, const Matrix& out) override;
  void swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                       const Matrix& gate_up_gradient) override;

  void embedding(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
                 std::int64_t sequence, const Matrix& out) override;
  void embedding_backward(const EmbeddingBackward& call) override;
  void cross_entropy(const CrossEntropy& loss) override;

  void add(const Matrix& a, const Matrix& b, const Matrix& out) override;
  void cast(const Matrix& x, const Matrix& out) override;
  void zero(const Matrix& x) override;
  void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) override;
  void sum_rows(const RowSum& sum) override;
  void adamw(const AdamWUpdate& update) override;
  void sum_of_squares(const Matrix& x, double* sum) override;
};

}  // namespace strata
