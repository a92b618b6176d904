// The CUDA device's kernels, compiled for the CPU and run by tests/cuda_emulation on host memory: what a GPU
// would compute, on a machine without one. Products, which are cuBLASLt's on a GPU, are the reference's.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/device/cuda/context.h"
#include "engine/device/reference/reference_kernels.h"

namespace strata {

/// Every request gets memory of its own of just that size, all NaN, so that reading what was not written and
/// writing past the end show.
class EmulatedScratch final : public CudaScratch {
 public:
  std::byte* at_least(Bytes bytes) override;
  Bytes largest() const { return largest_; }

 private:
  Bytes largest_ = 0;
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_{nullptr, nullptr};
};

class EmulatedKernels final : public Kernels {
 public:
  /// The most that a call has asked for.
  Bytes scratch_bytes() const override { return scratch_.largest(); }

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
  void cross_entropy(const CrossEntropy& cross_entropy) override;
  void add(const Matrix& a, const Matrix& b, const Matrix& out) override;
  void cast(const Matrix& x, const Matrix& out) override;
  void zero(const Matrix& x) override;
  void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) override;
  void sum_rows(const RowSum& sum) override;
  void adamw(const AdamWUpdate& update) override;
  void sum_of_squares(const Matrix& x, double* sum) override;

 private:
  EmulatedScratch scratch_;
  CudaContext context_{nullptr, scratch_};
  ReferenceKernels reference_;
};

}  // namespace strata
