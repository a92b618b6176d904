// The CPU device's kernels (see engine/device/kernels.h for the contract): vector code chosen for the machine
// at run time, threads from the device's pool. One object per lane; it owns that lane's scratch (scratch.h).
#pragma once

#include <memory>

#include "engine/device/kernels.h"

namespace strata {

class TaskArena;
struct CpuContext;

class CpuKernels final : public Kernels {
 public:
  /// `pool` outlives this object.
  explicit CpuKernels(TaskArena& pool);
  ~CpuKernels() override;

  void reserve_scratch(const ScratchBytes& largest) override;
  Bytes scratch_bytes() const override;
  void matmul(const Product& product) override;
  void add_column_sums(const Matrix& x, const Matrix& gradient) override;
  void norm(const NormForward& call) override;
  void norm_backward(const NormBackward& call) override;
  void attention(const AttentionForward& call) override;
  void attention_backward(const AttentionBackward& call) override;
  void rope(const Rope& call) override;
  void gelu(const Matrix& x, const Matrix& out) override;
  void gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) override;
  void swiglu(const Matrix& gate_up, const Matrix& out) override;
  void swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                       const Matrix& gate_up_gradient) override;
  void embedding(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
                 std::int64_t sequence, const Matrix& out) override;
  void embedding_backward(const EmbeddingBackward& call) override;
  void cross_entropy(const CrossEntropy& call) override;
  void add(const Matrix& a, const Matrix& b, const Matrix& out) override;
  void cast(const Matrix& x, const Matrix& out) override;
  void zero(const Matrix& x) override;
  void copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) override;
  void sum_rows(const RowSum& sum) override;
  void adamw(const AdamWUpdate& update) override;
  void sum_of_squares(const Matrix& x, double* sum) override;

 private:
  std::unique_ptr<CpuContext> context_;
};

}  // namespace strata
