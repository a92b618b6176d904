// The GPU's kernels on one stream (contracts: engine/device/kernels.h). Products go to cuBLASLt, attention to
// cuDNN if it computes the call, everything else to the kernels of this folder. Operands are in the GPU's
// memory.
#pragma once

#include <memory>

#include "engine/device/cuda/attention_cudnn.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/cuda_memory.h"
#include "engine/device/cuda/matmul.h"

namespace strata {

class CudaKernels final : public Kernels {
 public:
  /// `stream` belongs to `device` and outlives this object.
  CudaKernels(int device, CUstream_st* stream);
  ~CudaKernels() override;

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
  /// Memory that is replaced by more if that is asked for.
  class Scratch final : public CudaScratch {
   public:
    Scratch(int device, CUstream_st* stream) : device_(device), stream_(stream) {}
    std::byte* at_least(Bytes bytes) override;
    Bytes bytes() const { return memory_ == nullptr ? 0 : memory_->size(); }

   private:
    int device_;
    CUstream_st* stream_;
    std::unique_ptr<CudaMemory> memory_;
  };

  /// Makes the device current first.
  const CudaContext& context() const;

  int device_;
  Scratch scratch_;
  CudaContext context_;
  CudaMatmul matmul_;
  CudnnAttention cudnn_;
};

}  // namespace strata
