#include "tests/cuda_emulation/emulated_kernels.h"

#include <algorithm>
#include <new>

namespace strata {

std::byte* EmulatedScratch::at_least(Bytes bytes) {
  constexpr std::align_val_t kAlignment{256};
  const auto size = static_cast<std::size_t>(bytes);
  largest_ = std::max(largest_, bytes);
  memory_ = {static_cast<std::byte*>(::operator new(size, kAlignment)),
             [](std::byte* memory) { ::operator delete(memory, kAlignment); }};
  std::fill_n(memory_.get(), size, std::byte{0xFF});
  return memory_.get();
}

void EmulatedKernels::matmul(const Product& product) {
  reference_.matmul(product);
}
void EmulatedKernels::add_column_sums(const Matrix& x, const Matrix& gradient) {
  add_column_sums_on_cuda(context_, x, gradient);
}
void EmulatedKernels::norm(const NormForward& norm) {
  norm_on_cuda(context_, norm);
}
void EmulatedKernels::norm_backward(const NormBackward& norm) {
  norm_backward_on_cuda(context_, norm);
}
void EmulatedKernels::attention(const AttentionForward& attention) {
  attention_on_cuda(context_, attention);
}
void EmulatedKernels::attention_backward(const AttentionBackward& attention) {
  attention_backward_on_cuda(context_, attention);
}
void EmulatedKernels::rope(const Rope& rope) {
  rope_on_cuda(context_, rope);
}
void EmulatedKernels::gelu(const Matrix& x, const Matrix& out) {
  gelu_on_cuda(context_, x, out);
}
void EmulatedKernels::gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) {
  gelu_backward_on_cuda(context_, x, out_gradient, x_gradient);
}
void EmulatedKernels::swiglu(const Matrix& gate_up, const Matrix& out) {
  swiglu_on_cuda(context_, gate_up, out);
}
void EmulatedKernels::swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                                      const Matrix& gate_up_gradient) {
  swiglu_backward_on_cuda(context_, gate_up, out_gradient, gate_up_gradient);
}
void EmulatedKernels::embedding(std::span<const std::int32_t> tokens, const Matrix& table,
                                const Matrix& positions, std::int64_t sequence, const Matrix& out) {
  embedding_on_cuda(context_, tokens, table, positions, sequence, out);
}
void EmulatedKernels::embedding_backward(const EmbeddingBackward& call) {
  embedding_backward_on_cuda(context_, call);
}
void EmulatedKernels::cross_entropy(const CrossEntropy& cross_entropy) {
  cross_entropy_on_cuda(context_, cross_entropy);
}
void EmulatedKernels::add(const Matrix& a, const Matrix& b, const Matrix& out) {
  add_on_cuda(context_, a, b, out);
}
void EmulatedKernels::cast(const Matrix& x, const Matrix& out) {
  cast_on_cuda(context_, x, out);
}
void EmulatedKernels::zero(const Matrix& x) {
  zero_on_cuda(context_, x);
}
void EmulatedKernels::copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) {
  copy_rows_on_cuda(context_, x, rows, out);
}
void EmulatedKernels::sum_rows(const RowSum& sum) {
  sum_rows_on_cuda(context_, sum);
}
void EmulatedKernels::adamw(const AdamWUpdate& update) {
  adamw_on_cuda(context_, update);
}
void EmulatedKernels::sum_of_squares(const Matrix& x, double* sum) {
  sum_of_squares_on_cuda(context_, x, sum);
}

}  // namespace strata
