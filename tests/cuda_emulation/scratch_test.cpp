// The launchers ask for no more working memory than the rules of the CUDA device say.
#include "engine/device/cuda/scratch_rules.h"
#include "engine/device/state_calls.h"
#include "tests/cuda_emulation/emulated_kernels.h"
#include "tests/device/scratch_scenarios.h"

namespace strata {
namespace {

// Invariant (CudaScratch.*): A step allocates nothing.
TEST(CudaScratch, OfACallIsAtMostWhatTheRulesSay) {
  const CudaScratchRules rules;
  for (Scenario& scenario : calls_with_scratch()) {
    std::vector<Matrix> views;
    for (OperandMemory& operand : scenario.operands) views.push_back(operand.view());
    ScratchMeter meter(rules);
    scenario.call(meter, views);
    EmulatedKernels kernels;
    scenario.call(kernels, views);
    EXPECT_LE(kernels.scratch_bytes(), meter.largest().shared) << scenario.name;
    if (scenario.name.find("attention") == std::string::npos) {  // cuDNN's part is not emulated
      EXPECT_EQ(kernels.scratch_bytes() == 0, meter.largest().shared == 0) << scenario.name;
    }
    EXPECT_EQ(meter.largest().per_thread, 0);
  }
}

TEST(CudaScratch, OfASumOfSquaresIsExact) {
  const CudaScratchRules rules;
  for (const std::int64_t elements : {1, 64 * 1024, 64 * 1024 + 1, 300 * 1024}) {
    std::vector<float> values(static_cast<std::size_t>(elements), 1.0F);
    const Matrix x(values.data(), DType::fp32, 1, elements);
    double sum = 0;
    EmulatedKernels kernels;
    const SumOfSquares call{x, &sum};
    kernels.run(call);
    EXPECT_EQ(kernels.scratch_bytes(), rules.of(call).shared) << elements;
  }
}

TEST(CudaScratch, HasPartsWithNames) {
  const std::vector<ScratchPart> parts = CudaScratchRules().parts({.shared = 3 * MiB});
  EXPECT_EQ(total(parts), 4 * MiB + kHopperWorkspaceBytes + kLibraryCodeBytes);
  for (const ScratchPart& part : parts) EXPECT_FALSE(part.name.empty());
}

}  // namespace
}  // namespace strata
