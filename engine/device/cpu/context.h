// What every CPU kernel works with: the device's threads and the lane's own scratch. Kernels are free
// functions of it, one file each; CpuKernels only forwards.
#pragma once

#include "base/task_arena.h"
#include "engine/device/cpu/scratch.h"
#include "engine/device/kernels.h"

namespace strata {

struct CpuContext {
  TaskArena& pool;
  CpuScratch scratch;
};

/// Elements of work that are worth a task: some microseconds.
constexpr std::int64_t kTaskElements = 16384;

/// Rows of `columns` elements that make up a task.
constexpr std::int64_t rows_per_task(std::int64_t columns) {
  return columns >= kTaskElements ? 1 : kTaskElements / (columns > 0 ? columns : 1);
}

/// What a call needs; kernels that are not here need nothing.
ScratchBytes scratch_on_cpu(const Product& product, int threads);
ScratchBytes scratch_on_cpu(const NormForward& norm);
ScratchBytes scratch_on_cpu(const NormBackward& norm);
ScratchBytes scratch_on_cpu(const AttentionForward& attention);
ScratchBytes scratch_on_cpu(const AttentionBackward& attention);
ScratchBytes scratch_on_cpu(const CrossEntropy& cross_entropy);
ScratchBytes column_sums_scratch_on_cpu(const Matrix& x);

void matmul_on_cpu(CpuContext& context, const Product& product);
void add_column_sums_on_cpu(CpuContext& context, const Matrix& x, const Matrix& gradient);
void norm_on_cpu(CpuContext& context, const NormForward& norm);
void norm_backward_on_cpu(CpuContext& context, const NormBackward& norm);
void attention_on_cpu(CpuContext& context, const AttentionForward& attention);
void attention_backward_on_cpu(CpuContext& context, const AttentionBackward& attention);
void rope_on_cpu(CpuContext& context, const Rope& rope);
void gelu_on_cpu(CpuContext& context, const Matrix& x, const Matrix& out);
void gelu_backward_on_cpu(CpuContext& context, const Matrix& x, const Matrix& out_gradient,
                          const Matrix& x_gradient);
void swiglu_on_cpu(CpuContext& context, const Matrix& gate_up, const Matrix& out);
void swiglu_backward_on_cpu(CpuContext& context, const Matrix& gate_up, const Matrix& out_gradient,
                            const Matrix& gate_up_gradient);
void embedding_on_cpu(CpuContext& context, std::span<const std::int32_t> tokens, const Matrix& table,
                      const Matrix& positions, std::int64_t sequence, const Matrix& out);
void embedding_backward_on_cpu(CpuContext& context, const EmbeddingBackward& call);
void cross_entropy_on_cpu(CpuContext& context, const CrossEntropy& cross_entropy);
void add_on_cpu(CpuContext& context, const Matrix& a, const Matrix& b, const Matrix& out);
void cast_on_cpu(CpuContext& context, const Matrix& x, const Matrix& out);
void zero_on_cpu(CpuContext& context, const Matrix& x);
void copy_rows_on_cpu(CpuContext& context, const Matrix& x, std::span<const std::int32_t> rows,
                      const Matrix& out);
void sum_rows_on_cpu(CpuContext& context, const RowSum& sum);

}  // namespace strata
