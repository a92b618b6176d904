// Every kernel as plain scalar loops with sums in double precision: the oracle that the CPU and CUDA devices
// are tested against, and a device for tests of model code. Slow on purpose. Unlike the fast devices it
// checks the shapes of all operands on every call (std::logic_error), and it may allocate a row of scratch.
// Stateless: usable from any thread.
#pragma once

#include "engine/device/kernel_call.h"
#include "engine/device/kernels.h"

namespace strata {

void run_on_reference(const Product& product);
void run_on_reference(const ColumnSum& call);
void run_on_reference(const ColumnDots& call);
void run_on_reference(const ColumnScale& call);
void run_on_reference(const MagnitudeFactors& call);
void run_on_reference(const RowDots& call);
void run_on_reference(const RowDeviation& call);
void run_on_reference(const NormForward& norm);
void run_on_reference(const NormBackward& norm);
void run_on_reference(const AttentionForward& attention);
void run_on_reference(const AttentionBackward& attention);
void run_on_reference(const CachedAttention& attention);
void run_on_reference(const Rope& rope);
void run_on_reference(const HeadNormForward& norm);
void run_on_reference(const HeadNormBackward& norm);
void run_on_reference(const ActivationForward& call);
void run_on_reference(const ActivationBackward& call);
void run_on_reference(const GatedForward& call);
void run_on_reference(const GatedBackward& call);
void run_on_reference(const CrossEntropy& loss);
void run_on_reference(const SoftmaxPart& call);
void run_on_reference(const PartsLoss& call);
void run_on_reference(const PartsGradient& call);
void run_on_reference(const EmbeddingForward& call);
void run_on_reference(const EmbeddingBackward& call);
void run_on_reference(const Addition& call);
void run_on_reference(const Scale& call);
void run_on_reference(const Blend& call);
void run_on_reference(const DivideByNorm& call);
void run_on_reference(const Dropout& call);
void run_on_reference(const Cast& call);
void run_on_reference(const Zero& call);
void run_on_reference(const RowCopy& call);
void run_on_reference(const RowSum& sum);
void run_on_reference(const RouteForward& call);
void run_on_reference(const RouteBackward& call);
void run_on_reference(const LoadBalance& call);
void run_on_reference(const GroupRows& call);
void run_on_reference(const CountRows& call);
void run_on_reference(const CombineRows& call);
void run_on_reference(const CombineRowsBackward& call);
void run_on_reference(const GroupedProduct& product);
void run_on_reference(const GroupedWeightGradient& product);
void run_on_reference(const ParameterUpdate& update);
void run_on_reference(const MomentumMix& call);
void run_on_reference(const FactorStep& call);
void run_on_reference(const RowStep& call);
void run_on_reference(const DirectionLimit& call);
void run_on_reference(const SumOfSquares& call);
void run_on_reference(const EncodeFloat8& call);
void run_on_reference(const DecodeFloat8& call);
void run_on_reference(const DecodeBlocks& call);

class ReferenceKernels : public Kernels {
 public:
  void run(const KernelCall& call) override {
    call.visit([](const auto& each) { run_on_reference(each); });
  }
};

}  // namespace strata
