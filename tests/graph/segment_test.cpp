// Gradients that begin in a segment: those of a step's first microbatch, which find nothing there.
#include "engine/model/graph/segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/device/elementwise_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/model/graph/unit_builder.h"
#include "engine/model/graph/unit_passes.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {
namespace {

constexpr MicrobatchShape kThreeChunks{1, 138};  ///< chunks of 64, 64 and 10 rows
constexpr std::int64_t kWidth = 5, kOddVocabulary = 67;

/// Keeps what steps are asked to do to whole gradients.
class GradientProducts final : public Kernels {
 public:
  void run(const KernelCall& call) override {
    if (const auto* product = call.as<Product>(); product != nullptr && product->transpose_a)
      ++(product->accumulate ? added : overwritten);
    if (const auto* zero = call.as<Zero>()) cleared += zero->x.elements();
    reference_.run(call);
  }
  std::int64_t added = 0, overwritten = 0, cleared = 0;

 private:
  ReferenceKernels reference_;
};

/// A head, whose loss is taken in chunks of rows. Each chunk adds to the gradient of the same matrix. Padding
/// lies between the gradients of the norm's weight and of the matrix, and behind both.
class BegunGradient : public testing::Test {
 protected:
  static UnitBuilder::Built head() {
    UnitBuilder builder("head", "");
    const Axis hidden("hidden", kWidth);
    const TensorView normalised = builder.norm(builder.input(hidden), "norm", {NormKind::rms_norm, 1e-5});
    const TensorView logits = builder.linear(normalised, {{"lm_head", {"vocabulary", kOddVocabulary}}});
    builder.take_in_chunks(logits);
    builder.cross_entropy(logits, builder.data(1, "targets", TensorType::int32, {}, token_axis()));
    return builder.finish();
  }

  /// The gradient that the backward pass makes of `before`.
  std::vector<float> run(const std::vector<float>& before, const BegunGradients& begun) {
    GuardedMemory input = in_memory(random_values(kThreeChunks.tokens() * kWidth, 1), DType::fp32);
    GuardedMemory parameter = in_memory(random_values(head_.unit.elements, 2), DType::fp32);
    GuardedMemory gradient = in_memory(before, DType::fp32);
    GuardedMemory input_gradient(input.size()), workspace(pass_.workspace_bytes());
    GuardedMemory losses(kThreeChunks.tokens() * size_of(DType::fp32));
    std::vector<std::int32_t> targets(static_cast<std::size_t>(kThreeChunks.tokens()), 3);
    UnitMemory memory;
    memory[Region::input] = input.data();
    memory[Region::parameter] = parameter.data();
    memory[Region::gradient] = gradient.data();
    memory[Region::input_gradient] = input_gradient.data();
    memory[Region::workspace] = workspace.data();
    memory[Region::losses] = losses.data();
    memory[data_region(1)] = reinterpret_cast<std::byte*>(targets.data());
    pass_.segments().front().run(kernels_, memory, 1, begun);
    EXPECT_TRUE(gradient.intact() && workspace.intact());
    return floats_of(gradient);
  }

  UnitBuilder::Built head_ = head();
  UnitPass pass_ =
      make_passes(
          derive(head_.graph),
          {.precision = DType::fp32, .microbatch = kThreeChunks, .constants = {}, .max_chunk_bytes = 1})
          .saving_nothing()
          .backward;
  std::vector<float> zeros_ = std::vector<float>(static_cast<std::size_t>(head_.unit.elements));
  GradientProducts kernels_;
};

// Invariant of placement (BegunGradient.*): A new gradient equals one added to zeros. Only the first product
// overwrites the memory, which may be full of NaN. The gradient is the same in chunks of rows and with
// padding.
TEST_F(BegunGradient, IsWhatIsAddedToZeros) {
  ASSERT_EQ(pass_.segments().size(), 1U);
  const std::vector<float> added = run(zeros_, {});
  EXPECT_EQ(kernels_.added, 3);
  EXPECT_EQ(kernels_.cleared, 0);
  std::vector<float> unwritten(zeros_.size(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(run(unwritten, {.gradient = head_.unit.elements}), added);
}

TEST_F(BegunGradient, IsOverwrittenByTheFirstProductAndClearedElsewhere) {
  run(zeros_, {.gradient = head_.unit.elements});
  EXPECT_EQ(kernels_.overwritten, 1);
  EXPECT_EQ(kernels_.added, 2);
  EXPECT_EQ(kernels_.cleared, head_.unit.elements - kWidth * kOddVocabulary);
}

/// What was there before joins a gradient that goes on.
TEST_F(BegunGradient, GoesOnInLaterMicrobatches) {
  const std::vector<float> once = run(zeros_, {}), twice = run(once, {});
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-5);
  EXPECT_TRUE(std::ranges::any_of(once, [](float gradient) { return gradient != 0; }));
}

/// Rows of logits begin where 16-byte accesses may, and the loss reads them once.
TEST_F(BegunGradient, ComesFromLogitsWithAlignedRows) {
  std::int64_t losses = 0;
  for (const Segment::Step& step : pass_.segments().front().steps()) {
    const bool is_loss = step.rule->name() == "cross_entropy_gradient";
    EXPECT_NE(step.rule->name(), "cross_entropy");
    losses += is_loss ? 1 : 0;
    for (const Segment::PlacedOperand& operand : step.operands) {
      if (operand.region != Region::workspace || operand.size.columns != kOddVocabulary) continue;
      EXPECT_EQ(operand.size.stride, 128);
      EXPECT_EQ(operand.offset % kAlignment, 0);
    }
  }
  EXPECT_EQ(losses, 3);
}

}  // namespace
}  // namespace strata::test
