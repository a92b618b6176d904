// What every CPU kernel works with: the device's threads and the lane's own scratch. Kernels are
// overloads of run_on_cpu(), a file per family.
#pragma once

#include "base/task_arena.h"
#include "engine/device/activation.h"
#include "engine/device/cpu/scratch.h"
#include "engine/device/kernel_call.h"
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

/// What a call needs on a device of `threads`; kinds that are not here need nothing.
ScratchBytes scratch_on_cpu(const Product& product, int threads);
ScratchBytes scratch_on_cpu(const ColumnSum& call, int threads);
ScratchBytes scratch_on_cpu(const NormForward& norm, int threads);
ScratchBytes scratch_on_cpu(const NormBackward& norm, int threads);
ScratchBytes scratch_on_cpu(const HeadNormForward& norm, int threads);
ScratchBytes scratch_on_cpu(const HeadNormBackward& norm, int threads);
ScratchBytes scratch_on_cpu(const AttentionForward& attention, int threads);
ScratchBytes scratch_on_cpu(const AttentionBackward& attention, int threads);
ScratchBytes scratch_on_cpu(const CachedAttention& attention, int threads);
ScratchBytes scratch_on_cpu(const CrossEntropy& cross_entropy, int threads);
ScratchBytes scratch_on_cpu(const SoftmaxPart& call, int threads);
ScratchBytes scratch_on_cpu(const PartsGradient& call, int threads);
ScratchBytes scratch_on_cpu(const RouteBackward& call, int threads);
ScratchBytes scratch_on_cpu(const GroupedProduct& product, int threads);
ScratchBytes scratch_on_cpu(const GroupedWeightGradient& product, int threads);
template <typename Call>
ScratchBytes scratch_on_cpu(const Call& /*call*/, int /*threads*/) {
  return {};
}

void run_on_cpu(CpuContext& context, const Product& product);
void run_on_cpu(CpuContext& context, const ColumnSum& call);
void run_on_cpu(CpuContext& context, const ColumnDots& call);
void run_on_cpu(CpuContext& context, const ColumnScale& call);
void run_on_cpu(CpuContext& context, const MagnitudeFactors& call);
void run_on_cpu(CpuContext& context, const RowDots& call);
void run_on_cpu(CpuContext& context, const RowDeviation& call);
void run_on_cpu(CpuContext& context, const NormForward& norm);
void run_on_cpu(CpuContext& context, const NormBackward& norm);
void run_on_cpu(CpuContext& context, const AttentionForward& attention);
void run_on_cpu(CpuContext& context, const AttentionBackward& attention);
void run_on_cpu(CpuContext& context, const CachedAttention& attention);
void run_on_cpu(CpuContext& context, const Rope& rope);
void run_on_cpu(CpuContext& context, const HeadNormForward& norm);
void run_on_cpu(CpuContext& context, const HeadNormBackward& norm);
void run_on_cpu(CpuContext& context, const ActivationForward& call);
/// ActivationForward of a part of a matrix, on the calling thread.
void activate_tile(Activation kind, const Matrix& x, const Matrix& out);
void run_on_cpu(CpuContext& context, const ActivationBackward& call);
void run_on_cpu(CpuContext& context, const GatedForward& call);
void run_on_cpu(CpuContext& context, const GatedBackward& call);
void run_on_cpu(CpuContext& context, const EmbeddingForward& call);
void run_on_cpu(CpuContext& context, const EmbeddingBackward& call);
void run_on_cpu(CpuContext& context, const CrossEntropy& cross_entropy);
void run_on_cpu(CpuContext& context, const SoftmaxPart& call);
void run_on_cpu(CpuContext& context, const PartsLoss& call);
void run_on_cpu(CpuContext& context, const PartsGradient& call);
void run_on_cpu(CpuContext& context, const Addition& call);
void run_on_cpu(CpuContext& context, const Scale& call);
void run_on_cpu(CpuContext& context, const Blend& call);
void run_on_cpu(CpuContext& context, const DivideByNorm& call);
void run_on_cpu(CpuContext& context, const Dropout& call);
void run_on_cpu(CpuContext& context, const Cast& call);
void run_on_cpu(CpuContext& context, const Zero& call);
void run_on_cpu(CpuContext& context, const RowCopy& call);
void run_on_cpu(CpuContext& context, const RowSum& sum);
void run_on_cpu(CpuContext& context, const RouteForward& call);
void run_on_cpu(CpuContext& context, const RouteBackward& call);
void run_on_cpu(CpuContext& context, const LoadBalance& call);
void run_on_cpu(CpuContext& context, const GroupRows& call);
void run_on_cpu(CpuContext& context, const CountRows& call);
void run_on_cpu(CpuContext& context, const CombineRows& call);
void run_on_cpu(CpuContext& context, const CombineRowsBackward& call);
void run_on_cpu(CpuContext& context, const GroupedProduct& product);
void run_on_cpu(CpuContext& context, const GroupedWeightGradient& product);
void run_on_cpu(CpuContext& context, const ParameterUpdate& update);
void run_on_cpu(CpuContext& context, const MomentumMix& call);
void run_on_cpu(CpuContext& context, const FactorStep& call);
void run_on_cpu(CpuContext& context, const RowStep& call);
void run_on_cpu(CpuContext& context, const DirectionLimit& call);
void run_on_cpu(CpuContext& context, const SumOfSquares& call);
void run_on_cpu(CpuContext& context, const EncodeFloat8& call);
void run_on_cpu(CpuContext& context, const DecodeFloat8& call);
void run_on_cpu(CpuContext& context, const DecodeBlocks& call);

}  // namespace strata
