#include "engine/device/cuda/cuda_kernels.h"

#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/scratch_rules.h"

namespace strata {

std::byte* CudaKernels::Scratch::at_least(Bytes bytes) {
  if (memory_ == nullptr || memory_->size() < bytes) {
    check_cuda(cudaStreamSynchronize(stream_), "work on the GPU failed");
    memory_.reset();
    memory_ = std::make_unique<CudaMemory>(device_, align_up(bytes, kCudaScratchStep));
  }
  return memory_->data();
}

CudaKernels::CudaKernels(int device, CUstream_st* stream)
    : device_(device), scratch_(device, stream), context_{stream, scratch_}, matmul_(device) {}

CudaKernels::~CudaKernels() {
  cudaSetDevice(device_);
}

void CudaKernels::reserve_scratch(const ScratchBytes& largest) {
  if (largest.shared > 0) context().scratch.at_least(largest.shared);
}

Bytes CudaKernels::scratch_bytes() const {
  return scratch_.bytes() + matmul_.workspace_bytes();
}

const CudaContext& CudaKernels::context() const {
  use_device(device_);
  return context_;
}

void CudaKernels::matmul(const Product& product) {
  matmul_.multiply(context(), product);
}
void CudaKernels::add_column_sums(const Matrix& x, const Matrix& gradient) {
  add_column_sums_on_cuda(context(), x, gradient);
}
void CudaKernels::norm(const NormForward& call) {
  norm_on_cuda(context(), call);
}
void CudaKernels::norm_backward(const NormBackward& call) {
  norm_backward_on_cuda(context(), call);
}
void CudaKernels::attention(const AttentionForward& call) {
  if (!cudnn_.forward(context(), call)) attention_on_cuda(context(), call);
}
void CudaKernels::attention_backward(const AttentionBackward& call) {
  if (!cudnn_.backward(context(), call)) attention_backward_on_cuda(context(), call);
}
void CudaKernels::rope(const Rope& call) {
  rope_on_cuda(context(), call);
}
void CudaKernels::gelu(const Matrix& x, const Matrix& out) {
  gelu_on_cuda(context(), x, out);
}
void CudaKernels::gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) {
  gelu_backward_on_cuda(context(), x, out_gradient, x_gradient);
}
void CudaKernels::swiglu(const Matrix& gate_up, const Matrix& out) {
  swiglu_on_cuda(context(), gate_up, out);
}
void CudaKernels::swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                                  const Matrix& gate_up_gradient) {
  swiglu_backward_on_cuda(context(), gate_up, out_gradient, gate_up_gradient);
}
void CudaKernels::embedding(std::span<const std::int32_t> tokens, const Matrix& table,
                            const Matrix& positions, std::int64_t sequence, const Matrix& out) {
  embedding_on_cuda(context(), tokens, table, positions, sequence, out);
}
void CudaKernels::embedding_backward(const EmbeddingBackward& call) {
  embedding_backward_on_cuda(context(), call);
}
void CudaKernels::cross_entropy(const CrossEntropy& call) {
  cross_entropy_on_cuda(context(), call);
}
void CudaKernels::add(const Matrix& a, const Matrix& b, const Matrix& out) {
  add_on_cuda(context(), a, b, out);
}
void CudaKernels::cast(const Matrix& x, const Matrix& out) {
  cast_on_cuda(context(), x, out);
}
void CudaKernels::zero(const Matrix& x) {
  zero_on_cuda(context(), x);
}
void CudaKernels::copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) {
  copy_rows_on_cuda(context(), x, rows, out);
}
void CudaKernels::sum_rows(const RowSum& sum) {
  sum_rows_on_cuda(context(), sum);
}
void CudaKernels::adamw(const AdamWUpdate& update) {
  adamw_on_cuda(context(), update);
}
void CudaKernels::sum_of_squares(const Matrix& x, double* sum) {
  sum_of_squares_on_cuda(context(), x, sum);
}

}  // namespace strata
