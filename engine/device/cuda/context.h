// What every CUDA kernel's launcher works with. Launchers are free functions, a .cu file per family;
// CudaKernels only forwards. They enqueue and return; operands are in the device's memory.
#pragma once

#include "engine/device/kernels.h"

struct CUstream_st;  // what cudaStream_t points to

namespace strata {

/// Working memory on the device, shared by the launchers of one stream, one after another. Of what a launcher
/// asks for, the functions below say how much it can be.
class CudaScratch {
 public:
  virtual ~CudaScratch() = default;
  /// At least `bytes`, aligned to 256, contents unspecified. Grows if less was reserved.
  virtual std::byte* at_least(Bytes bytes) = 0;
};

struct CudaContext {
  CUstream_st* stream;
  CudaScratch& scratch;
};

Bytes column_sums_scratch_on_cuda(const Matrix& x);
Bytes norm_backward_scratch_on_cuda(const NormBackward& norm);
Bytes attention_backward_scratch_on_cuda(const AttentionShape& shape);
Bytes embedding_backward_scratch_on_cuda(std::size_t tokens);
Bytes sum_of_squares_scratch_on_cuda(const Matrix& x);

void add_column_sums_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& gradient);
void norm_on_cuda(const CudaContext& context, const NormForward& norm);
void norm_backward_on_cuda(const CudaContext& context, const NormBackward& norm);
/// In plain fp32 arithmetic: for what cuDNN does not support, and what it is compared with.
void attention_on_cuda(const CudaContext& context, const AttentionForward& attention);
void attention_backward_on_cuda(const CudaContext& context, const AttentionBackward& attention);
void rope_on_cuda(const CudaContext& context, const Rope& rope);
void gelu_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& out);
void gelu_backward_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& out_gradient,
                           const Matrix& x_gradient);
void swiglu_on_cuda(const CudaContext& context, const Matrix& gate_up, const Matrix& out);
void swiglu_backward_on_cuda(const CudaContext& context, const Matrix& gate_up, const Matrix& out_gradient,
                             const Matrix& gate_up_gradient);
void embedding_on_cuda(const CudaContext& context, std::span<const std::int32_t> tokens, const Matrix& table,
                       const Matrix& positions, std::int64_t sequence, const Matrix& out);
void embedding_backward_on_cuda(const CudaContext& context, const EmbeddingBackward& call);
void cross_entropy_on_cuda(const CudaContext& context, const CrossEntropy& cross_entropy);
void add_on_cuda(const CudaContext& context, const Matrix& a, const Matrix& b, const Matrix& out);
void cast_on_cuda(const CudaContext& context, const Matrix& x, const Matrix& out);
void zero_on_cuda(const CudaContext& context, const Matrix& x);
void copy_rows_on_cuda(const CudaContext& context, const Matrix& x, std::span<const std::int32_t> rows,
                       const Matrix& out);
void sum_rows_on_cuda(const CudaContext& context, const RowSum& sum);
void adamw_on_cuda(const CudaContext& context, const AdamWUpdate& update);
void sum_of_squares_on_cuda(const CudaContext& context, const Matrix& x, double* sum);

}  // namespace strata
