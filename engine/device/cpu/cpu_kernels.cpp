#include "engine/device/cpu/cpu_kernels.h"

#include "engine/device/cpu/context.h"
#include "optim/adamw.h"
#include "optim/gradient_norm.h"

namespace strata {

CpuKernels::CpuKernels(TaskArena& pool)
    : context_(std::make_unique<CpuContext>(CpuContext{pool, CpuScratch(pool.threads())})) {}
CpuKernels::~CpuKernels() = default;

void CpuKernels::reserve_scratch(const ScratchBytes& largest) {
  context_->scratch.reserve(largest);
}

Bytes CpuKernels::scratch_bytes() const {
  return context_->scratch.bytes();
}

void CpuKernels::matmul(const Product& product) {
  matmul_on_cpu(*context_, product);
}

void CpuKernels::add_column_sums(const Matrix& x, const Matrix& gradient) {
  add_column_sums_on_cpu(*context_, x, gradient);
}

void CpuKernels::norm(const NormForward& call) {
  norm_on_cpu(*context_, call);
}

void CpuKernels::norm_backward(const NormBackward& call) {
  norm_backward_on_cpu(*context_, call);
}

void CpuKernels::attention(const AttentionForward& call) {
  attention_on_cpu(*context_, call);
}

void CpuKernels::attention_backward(const AttentionBackward& call) {
  attention_backward_on_cpu(*context_, call);
}

void CpuKernels::rope(const Rope& call) {
  rope_on_cpu(*context_, call);
}

void CpuKernels::gelu(const Matrix& x, const Matrix& out) {
  gelu_on_cpu(*context_, x, out);
}

void CpuKernels::gelu_backward(const Matrix& x, const Matrix& out_gradient, const Matrix& x_gradient) {
  gelu_backward_on_cpu(*context_, x, out_gradient, x_gradient);
}

void CpuKernels::swiglu(const Matrix& gate_up, const Matrix& out) {
  swiglu_on_cpu(*context_, gate_up, out);
}

void CpuKernels::swiglu_backward(const Matrix& gate_up, const Matrix& out_gradient,
                                 const Matrix& gate_up_gradient) {
  swiglu_backward_on_cpu(*context_, gate_up, out_gradient, gate_up_gradient);
}

void CpuKernels::embedding(std::span<const std::int32_t> tokens, const Matrix& table, const Matrix& positions,
                           std::int64_t sequence, const Matrix& out) {
  embedding_on_cpu(*context_, tokens, table, positions, sequence, out);
}

void CpuKernels::embedding_backward(const EmbeddingBackward& call) {
  embedding_backward_on_cpu(*context_, call);
}

void CpuKernels::cross_entropy(const CrossEntropy& call) {
  cross_entropy_on_cpu(*context_, call);
}

void CpuKernels::add(const Matrix& a, const Matrix& b, const Matrix& out) {
  add_on_cpu(*context_, a, b, out);
}

void CpuKernels::cast(const Matrix& x, const Matrix& out) {
  cast_on_cpu(*context_, x, out);
}

void CpuKernels::zero(const Matrix& x) {
  zero_on_cpu(*context_, x);
}

void CpuKernels::copy_rows(const Matrix& x, std::span<const std::int32_t> rows, const Matrix& out) {
  copy_rows_on_cpu(*context_, x, rows, out);
}

void CpuKernels::sum_rows(const RowSum& sum) {
  sum_rows_on_cpu(*context_, sum);
}

void CpuKernels::adamw(const AdamWUpdate& call) {
  if (call.scalars->skip != 0) return round_masters(call.state);
  context_->pool.execute(
      [&] { strata::adamw(call.decay ? call.scalars->decayed : call.scalars->plain, call.state); });
}

void CpuKernels::sum_of_squares(const Matrix& x, double* sum) {
  context_->pool.execute([&] { *sum = strata::sum_of_squares(x.data, x.dtype, x.elements()); });
}

}  // namespace strata
