// What every CUDA kernel's launcher works with. Launchers are overloads of run_on_cuda(), a .cu file per
// family; products are in matmul.h and float8_product.h. They enqueue and return; operands are in the
// device's memory.
#pragma once

#include "engine/device/kernel_call.h"
#include "engine/device/kernels.h"

struct CUstream_st;  // what cudaStream_t points to

namespace strata {

/// Working memory on the device, shared by the launchers of one stream, one after another. scratch_on_cuda()
/// says how much a launcher asks for at most.
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

/// The most that a call asks for; kinds that are not here ask for nothing.
Bytes scratch_on_cuda(const Product& product);
Bytes scratch_on_cuda(const ColumnSum& call);
Bytes scratch_on_cuda(const ColumnDots& call);
Bytes scratch_on_cuda(const NormBackward& norm);
Bytes scratch_on_cuda(const HeadNormBackward& norm);
Bytes scratch_on_cuda(const AttentionBackward& attention);
Bytes scratch_on_cuda(const EmbeddingBackward& call);
Bytes scratch_on_cuda(const SumOfSquares& call);
Bytes scratch_on_cuda(const EncodeFloat8& call);
template <typename Call>
Bytes scratch_on_cuda(const Call& /*call*/) {
  return 0;
}

void run_on_cuda(const CudaContext& context, const ColumnSum& call);
void run_on_cuda(const CudaContext& context, const ColumnDots& call);
void run_on_cuda(const CudaContext& context, const ColumnScale& call);
void run_on_cuda(const CudaContext& context, const MagnitudeFactors& call);
void run_on_cuda(const CudaContext& context, const RowDots& call);
void run_on_cuda(const CudaContext& context, const RowDeviation& call);
void run_on_cuda(const CudaContext& context, const NormForward& norm);
void run_on_cuda(const CudaContext& context, const NormBackward& norm);
/// Attention is in plain fp32 arithmetic: for what cuDNN does not support, and what it is compared with.
void run_on_cuda(const CudaContext& context, const AttentionForward& attention);
void run_on_cuda(const CudaContext& context, const AttentionBackward& attention);
void run_on_cuda(const CudaContext& context, const CachedAttention& attention);
void run_on_cuda(const CudaContext& context, const Rope& rope);
void run_on_cuda(const CudaContext& context, const HeadNormForward& norm);
void run_on_cuda(const CudaContext& context, const HeadNormBackward& norm);
void run_on_cuda(const CudaContext& context, const ActivationForward& call);
void run_on_cuda(const CudaContext& context, const ActivationBackward& call);
void run_on_cuda(const CudaContext& context, const GatedForward& call);
void run_on_cuda(const CudaContext& context, const GatedBackward& call);
void run_on_cuda(const CudaContext& context, const EmbeddingForward& call);
void run_on_cuda(const CudaContext& context, const EmbeddingBackward& call);
void run_on_cuda(const CudaContext& context, const CrossEntropy& cross_entropy);
void run_on_cuda(const CudaContext& context, const SoftmaxPart& call);
void run_on_cuda(const CudaContext& context, const PartsLoss& call);
void run_on_cuda(const CudaContext& context, const PartsGradient& call);
void run_on_cuda(const CudaContext& context, const Addition& call);
void run_on_cuda(const CudaContext& context, const Scale& call);
void run_on_cuda(const CudaContext& context, const Blend& call);
void run_on_cuda(const CudaContext& context, const DivideByNorm& call);
void run_on_cuda(const CudaContext& context, const Dropout& call);
void run_on_cuda(const CudaContext& context, const Cast& call);
void run_on_cuda(const CudaContext& context, const Zero& call);
void run_on_cuda(const CudaContext& context, const RowCopy& call);
void run_on_cuda(const CudaContext& context, const RowSum& sum);
void run_on_cuda(const CudaContext& context, const RouteForward& call);
void run_on_cuda(const CudaContext& context, const RouteBackward& call);
void run_on_cuda(const CudaContext& context, const LoadBalance& call);
void run_on_cuda(const CudaContext& context, const GroupRows& call);
void run_on_cuda(const CudaContext& context, const CountRows& call);
void run_on_cuda(const CudaContext& context, const CombineRows& call);
void run_on_cuda(const CudaContext& context, const CombineRowsBackward& call);
void run_on_cuda(const CudaContext& context, const GroupedProduct& product);
void run_on_cuda(const CudaContext& context, const GroupedWeightGradient& product);
void run_on_cuda(const CudaContext& context, const ParameterUpdate& update);
void run_on_cuda(const CudaContext& context, const MomentumMix& call);
void run_on_cuda(const CudaContext& context, const FactorStep& call);
void run_on_cuda(const CudaContext& context, const RowStep& call);
void run_on_cuda(const CudaContext& context, const DirectionLimit& call);
void run_on_cuda(const CudaContext& context, const SumOfSquares& call);
void run_on_cuda(const CudaContext& context, const EncodeFloat8& call);
void run_on_cuda(const CudaContext& context, const DecodeFloat8& call);
void run_on_cuda(const CudaContext& context, const DecodeBlocks& call);

}  // namespace strata
