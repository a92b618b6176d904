// Attention's backward pass in parts, with our own kernels in cuDNN's place, against the reference.
#include <gtest/gtest.h>

#include "engine/device/attention_calls.h"
#include "engine/device/cuda/attention_parts.h"
#include "engine/device/reference/reference_kernels.h"
#include "tests/cuda_emulation/emulated_kernels.h"
#include "tests/device/kernel_scenarios.h"

namespace strata {
namespace {

/// Kernels whose attention goes backward in parts of `chunk`.
class InParts final : public Kernels {
 public:
  explicit InParts(const AttentionChunk& chunk) : chunk_(chunk) {}
  void run(const KernelCall& call) override {
    const auto* backward = call.as<AttentionBackward>();
    if (backward == nullptr) return kernels_.run(call);
    std::vector<std::byte> memory(static_cast<std::size_t>(head_gradient_bytes(backward->shape, chunk_)),
                                  std::byte{0xFF});
    EmulatedScratch scratch;
    run_in_parts({nullptr, scratch}, *backward, chunk_, head_gradients(*backward, chunk_, memory.data()),
                 [&](const AttentionBackward& part) {
                   ++parts_;
                   EXPECT_EQ(part.shape.heads, chunk_.kv_heads * chunk_.group);
                   kernels_.run(part);
                 });
  }
  int parts() const { return parts_; }

 private:
  AttentionChunk chunk_;
  EmulatedKernels kernels_;
  int parts_ = 0;
};

class InPartsImplementation final : public Implementation {
 public:
  explicit InPartsImplementation(const AttentionChunk& chunk) : kernels_(chunk) {}
  Kernels& kernels() override { return kernels_; }
  int parts() const { return kernels_.parts(); }

 private:
  InParts kernels_;
};

TEST(AttentionParts, GiveTheGradientsOfTheWhole) {
  const AttentionShape shape{
      .batch = 2, .sequence = 70, .heads = 8, .kv_heads = 2, .head_dimension = 16, .scale = 0.25F};
  const struct {
    AttentionChunk chunk;
    int parts;
  } cases[] = {{{2, 2, 4}, 1}, {{1, 2, 4}, 2}, {{1, 1, 4}, 4}, {{1, 1, 2}, 8}, {{1, 1, 1}, 16}};
  for (const auto& [chunk, parts] : cases) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      for (const std::int64_t padding : {0, 8}) {
        SCOPED_TRACE(::testing::Message()
                     << parts << " parts, " << name_of(dtype) << ", padding " << padding);
        InPartsImplementation implementation(chunk);
        expect_agrees_with_reference(attention_backward_scenario(shape, dtype, padding), implementation);
        EXPECT_EQ(implementation.parts(), parts);
      }
    }
  }
}

}  // namespace
}  // namespace strata
