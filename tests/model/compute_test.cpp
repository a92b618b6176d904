#include "engine/model/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "tests/model/tiny_model.h"

namespace strata::test {
namespace {

constexpr MicrobatchShape kShape{3, 7};

class UnitComputeOf : public ::testing::TestWithParam<TinyArchitecture> {
 protected:
  TinyModel make(DType dtype) const { return TinyModel(GetParam().architecture, dtype, kShape); }
};

INSTANTIATE_TEST_SUITE_P(Families, UnitComputeOf, ::testing::ValuesIn(tiny_architectures()),
                         [](const auto& info) { return info.param.name; });

double dot(const float* a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A random direction of unit length.
std::vector<double> random_direction(std::int64_t elements, std::uint64_t seed) {
  const std::vector<float> values = random_values(elements, seed);
  std::vector<double> direction(values.begin(), values.end());
  double square = 0;
  for (const double value : direction) square += value * value;
  for (double& value : direction) value /= std::sqrt(square);
  return direction;
}

/// (loss(p + h·v) - loss(p - h·v)) / 2h over one tensor, extrapolated from steps h and h/2 (Richardson).
/// Nothing if the loss may jump and does so between the steps: a smooth one's two differences nearly agree.
std::optional<double> central_difference(TinyModel& model, float* tensor,
                                         const std::vector<double>& direction, bool may_jump) {
  const std::vector<float> original(tensor, tensor + direction.size());
  const auto loss_at = [&](double step) {
    for (std::size_t i = 0; i < direction.size(); ++i) {
      tensor[i] = static_cast<float>(original[i] + step * direction[i]);
    }
    const double loss = model.loss();
    std::copy(original.begin(), original.end(), tensor);
    return loss;
  };
  const auto difference = [&](double step) { return (loss_at(step) - loss_at(-step)) / (2 * step); };
  constexpr double kStep = 0.02;
  const double wide = difference(kStep), narrow = difference(kStep / 2);
  constexpr double kJump = 1e-3;  // of these models: smooth ones stay below 5e-4, jumps begin at 4e-3
  if (may_jump && std::abs(wide - narrow) > kJump) return {};
  return (4 * narrow - wide) / 3;
}

// Tolerance: fp32 losses carry about 1e-7, so a difference over a step of 0.01 carries about 1e-5;
// extrapolation leaves a truncation of the fourth order. Derivatives along random directions are about
// |gradient| / sqrt(elements). Where a step sends a token to other experts, the loss jumps and has no
// derivative: such directions do not count.
TEST_P(UnitComputeOf, EveryTensorsGradientIsTheDerivativeOfTheLoss) {
  TinyModel model = make(DType::fp32);
  const BackwardResult result = model.backward(/*save=*/true);
  const bool may_jump = GetParam().architecture.experts_per_token < GetParam().architecture.experts;
  for (std::size_t u = 0; u < model.model().units.size(); ++u) {
    for (const TensorSpec& tensor : model.model().units[u].tensors) {
      const float* gradient = result.gradients[u].data() + tensor.offset;
      double square = 0;
      for (std::int64_t i = 0; i < tensor.elements; ++i) square += double{gradient[i]} * gradient[i];
      const double typical = std::sqrt(square / static_cast<double>(tensor.elements));
      int measured = 0;
      for (std::uint64_t seed = 100; measured < 3 && seed < 110; ++seed) {
        const std::vector<double> direction = random_direction(tensor.elements, seed);
        const std::optional<double> difference =
            central_difference(model, model.parameters()[u].data() + tensor.offset, direction, may_jump);
        if (!difference) continue;
        ++measured;
        EXPECT_NEAR(dot(gradient, direction), *difference, 0.005 * typical + 3e-5) << tensor.hf_name;
      }
      EXPECT_EQ(measured, 3) << tensor.hf_name;
    }
  }
}

TEST_P(UnitComputeOf, EveryTensorGetsAGradientAndPaddingNone) {
  TinyModel model = make(DType::fp32);
  const BackwardResult result = model.backward(/*save=*/false);
  for (std::size_t u = 0; u < model.model().units.size(); ++u) {
    std::vector<float> rest = result.gradients[u];
    for (const TensorSpec& tensor : model.model().units[u].tensors) {
      const auto first = rest.begin() + tensor.offset;
      EXPECT_TRUE(std::any_of(first, first + tensor.elements, [](float g) { return g != 0; }))
          << tensor.hf_name;
      EXPECT_TRUE(std::all_of(first, first + tensor.elements, [](float g) { return std::isfinite(g); }));
      std::fill(first, first + tensor.elements, 0.0F);
    }
    EXPECT_EQ(rest, std::vector<float>(rest.size())) << "padding of " << model.model().units[u].name;
  }
}

// Invariant: Recomputation changes no result.
TEST_P(UnitComputeOf, SavedAndRecomputedActivationsGiveTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    TinyModel model = make(dtype);
    EXPECT_EQ(model.last_activation(/*save=*/true), model.last_activation(/*save=*/false));
    const BackwardResult saved = model.backward(/*save=*/true);
    const BackwardResult recomputed = model.backward(/*save=*/false);
    EXPECT_EQ(saved.gradients, recomputed.gradients);
    EXPECT_EQ(saved.losses, recomputed.losses);
  }
}

TEST_P(UnitComputeOf, ADividedBackwardPassGivesTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const bool save : {true, false}) {
      TinyModel model = make(dtype);
      const BackwardResult whole = model.backward(save);
      const BackwardResult divided = model.backward(save, /*passes=*/1, /*in_two=*/true);
      EXPECT_EQ(divided.gradients, whole.gradients);
      EXPECT_EQ(divided.losses, whole.losses);
    }
  }
}

TEST_P(UnitComputeOf, LossesOfForwardAndBackwardAreTheSameBits) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    TinyModel model = make(dtype);
    EXPECT_EQ(model.losses(), model.backward(/*save=*/false).losses);
  }
}

TEST_P(UnitComputeOf, GradientsAreAddedToWhatIsThere) {
  TinyModel model = make(DType::fp32);
  const BackwardResult once = model.backward(/*save=*/false, /*passes=*/1);
  const BackwardResult twice = model.backward(/*save=*/false, /*passes=*/2);
  for (std::size_t u = 0; u < once.gradients.size(); ++u) {
    for (std::size_t i = 0; i < once.gradients[u].size(); ++i) {
      EXPECT_NEAR(2 * once.gradients[u][i], twice.gradients[u][i], 1e-6);
    }
  }
}

TEST_P(UnitComputeOf, Bfloat16FollowsFp32) {
  Architecture architecture = GetParam().architecture;
  architecture.experts_per_token = architecture.experts;  // rounding might send a token to other ones
  const BackwardResult exact = TinyModel(architecture, DType::fp32, kShape).backward(/*save=*/true);
  const BackwardResult rounded = TinyModel(architecture, DType::bf16, kShape).backward(/*save=*/true);
  for (std::size_t u = 0; u < exact.gradients.size(); ++u) {
    double difference = 0;
    double square = 0;
    for (std::size_t i = 0; i < exact.gradients[u].size(); ++i) {
      difference += std::pow(double{rounded.gradients[u][i]} - exact.gradients[u][i], 2);
      square += std::pow(exact.gradients[u][i], 2);
    }
    EXPECT_LT(std::sqrt(difference / square), 0.05) << "unit " << u;
  }
}

/// How many tokens back the last layer's output depends on: each layer widens that by window - 1.
std::int64_t reach_of(const Architecture& architecture) {
  std::int64_t reach = 0;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const bool slides = architecture.slides.empty() || architecture.slides[static_cast<std::size_t>(layer)];
    reach += slides && architecture.window > 0 ? architecture.window - 1 : kShape.sequence;
  }
  return reach;
}

TEST_P(UnitComputeOf, TokensSeeOnlyTheirPastAndWindow) {
  Architecture architecture = GetParam().architecture;
  architecture.balance_coefficient = 0;  // that loss is of all tokens
  const std::int64_t reach = reach_of(architecture);
  TinyModel model(architecture, DType::fp32, kShape);
  const std::vector<float> before = model.losses();
  constexpr std::int64_t kChanged = 1;
  model.tokens()[kChanged] =
      (model.tokens()[kChanged] + 1) % static_cast<std::int32_t>(architecture.vocabulary);
  const std::vector<float> after = model.losses();
  for (std::int64_t t = 0; t < kShape.tokens(); ++t) {
    const bool sees = t >= kChanged && t - kChanged <= reach && t < kShape.sequence;
    EXPECT_EQ(sees, before[static_cast<std::size_t>(t)] != after[static_cast<std::size_t>(t)])
        << "token " << t;
  }
}

TEST_P(UnitComputeOf, ForwardFlopsAreThoseOfTheModel) {
  const Model model = build_model(GetParam().architecture);
  const UnitCompute compute(model, DType::fp32, kShape);
  double sum = 0;
  for (const Unit& unit : model.units) sum += compute.passes(unit).saving_nothing().forward.flops();
  EXPECT_DOUBLE_EQ(sum, forward_flops_per_token(model, kShape.sequence) * kShape.tokens());
}

TEST_P(UnitComputeOf, RecomputingCostsFlopsAndSavesMemory) {
  const Model model = build_model(GetParam().architecture);
  const UnitCompute compute(model, DType::bf16, {1, 64});
  const UnitPasses& block = compute.passes(model.units[1]);
  EXPECT_GT(block.saving_nothing().backward.flops(), block.saving_all().backward.flops());
  EXPECT_GE(block.saving_all().backward.flops(), 2 * block.saving_nothing().forward.flops());
  EXPECT_GT(block.saving_nothing().backward.workspace_bytes(), block.saving_all().backward.workspace_bytes());
  for (const UnitPasses::Level& level : block.levels) {
    EXPECT_DOUBLE_EQ(level.input_gradient.flops() + level.weight_gradient.flops(), level.backward.flops());
    EXPECT_GT(level.weight_gradient.flops(), 0.3 * block.saving_nothing().forward.flops());
  }
  for (const Unit& unit : {model.embedding(), model.head()})
    EXPECT_EQ(compute.passes(unit).levels.size(), 1U);
}

Architecture gpt2_124m() {
  Architecture a = tiny_architectures().front().architecture;
  a.layers = 12;
  a.hidden = 768;
  a.heads = a.kv_heads = 12;
  a.head_dimension = 64;
  a.intermediate = 3072;
  a.vocabulary = 50257;
  a.max_positions = 1024;
  return a;
}

TEST(UnitCompute, AGpt2BlockKeepsNineAndScratchesThirteenHiddenVectorsPerToken) {
  const Model model = build_model(gpt2_124m());
  const MicrobatchShape shape{4, 512};
  const UnitCompute compute(model, DType::bf16, shape);
  const auto vectors = [&](Bytes bytes) {
    return static_cast<double>(bytes) / static_cast<double>(shape.tokens() * 768 * size_of(DType::bf16));
  };
  const UnitPasses& block = compute.passes(model.units[1]);
  EXPECT_NEAR(vectors(block.saving_all().saved_bytes), 9, 0.1);
  EXPECT_NEAR(vectors(block.saving_all().forward.workspace_bytes()), 4, 0.1);
  EXPECT_NEAR(vectors(block.saving_nothing().forward.workspace_bytes()), 9, 0.1);
  EXPECT_NEAR(vectors(block.saving_all().backward.workspace_bytes()), 4, 0.1);
  EXPECT_NEAR(vectors(block.saving_nothing().backward.workspace_bytes()), 13, 0.1);
}

/// Reading what went into it once, whatever is saved.
TEST(UnitCompute, MakesAnActivationAgainByTheCallOfItsGradient) {
  const UnitCompute compute(build_model(gpt2_124m()), DType::bf16, {4, 512});
  for (const UnitPasses::Level& level : compute.passes(1).levels) {
    std::vector<std::string> calls;
    for (const Segment& segment : level.backward.segments()) {
      for (const RepeatedCall& call : *segment.work())
        if (call.call.name.starts_with("activation")) calls.push_back(call.call.name);
    }
    EXPECT_THAT(calls, ::testing::ElementsAre("activation_gradient 2048x3072bf16 2048x3072bf16 "
                                              "2048x3072bf16 2048x3072bf16"));
  }
}

UnitPasses head_passes(const Model& model, DType precision, MicrobatchShape shape,
                       Bytes max_chunk_bytes = 64 * MiB) {
  return make_passes(
      derive(model.graph_of(model.head())),
      {.precision = precision, .microbatch = shape, .constants = {}, .max_chunk_bytes = max_chunk_bytes});
}

TEST(Head, LogitsOfALargeVocabularyNeverExistWhole) {
  const Model model = build_model(gpt2_124m());
  const UnitPasses head = head_passes(model, DType::bf16, {16, 512});
  EXPECT_EQ(head.saving_nothing().forward.chunk_rows(),
            640);  // the largest multiple of 64 below 64 MiB / (50257 · 2)
  EXPECT_LT(head.saving_nothing().backward.workspace_bytes(), 65 * MiB);
  EXPECT_LT(head.saving_nothing().forward.workspace_bytes(), 66 * MiB);
  EXPECT_EQ(head_passes(model, DType::bf16, {1, 33}).saving_nothing().backward.chunk_rows(), 33);
  EXPECT_EQ(head_passes(model, DType::bf16, {1, 512}, 1).saving_nothing().backward.chunk_rows(), 64);
}

TEST(Head, HasLargerChunksOnAGpu) {
  Model model = build_model(gpt2_124m());
  const auto rows = [&] {
    return UnitCompute(model, DType::bf16, {64, 1024})
        .passes(model.head())
        .saving_nothing()
        .backward.chunk_rows();
  };
  EXPECT_EQ(rows(), 640);
  model.max_chunk_bytes = max_chunk_bytes(DeviceKind::cuda);
  EXPECT_EQ(rows(), 5312);  // the largest multiple of 64 below 512 MiB / (50257 · 2)
  EXPECT_EQ(max_chunk_bytes(DeviceKind::cpu), 64 * MiB);
}

struct HeadResult {
  std::vector<float> losses, input_gradient, gradient, shared_gradient;
};

/// Runs a head alone on random inputs.
HeadResult run_head(const Model& model, Bytes max_chunk_bytes, MicrobatchShape shape) {
  const UnitPasses head = head_passes(model, DType::fp32, shape, max_chunk_bytes);
  const std::int64_t hidden = model.architecture.hidden;
  GuardedMemory parameter = in_memory(random_values(model.head().elements, 5), DType::fp32);
  GuardedMemory shared = in_memory(random_values(model.embedding().elements, 6), DType::fp32);
  GuardedMemory input = in_memory(random_values(shape.tokens() * hidden, 7), DType::fp32);
  GuardedMemory gradient =
      in_memory(std::vector<float>(static_cast<std::size_t>(model.head().elements)), DType::fp32);
  GuardedMemory shared_gradient =
      in_memory(std::vector<float>(static_cast<std::size_t>(model.embedding().elements)), DType::fp32);
  GuardedMemory workspace(head.saving_nothing().backward.workspace_bytes());
  GuardedMemory input_gradient(input.size());
  GuardedMemory losses(shape.tokens() * size_of(DType::fp32));
  GuardedMemory tally = in_memory(random_values(2 * model.architecture.experts, 9), DType::fp32);
  std::vector<std::int32_t> targets = random_tokens(shape.tokens(), model.architecture.vocabulary, 8);
  UnitMemory memory;
  memory[Region::parameter] = parameter.data();
  memory[Region::shared_parameter] = shared.data();
  memory[Region::gradient] = gradient.data();
  memory[Region::shared_gradient] = shared_gradient.data();
  memory[Region::input] = input.data();
  memory[Region::input_gradient] = input_gradient.data();
  memory[Region::workspace] = workspace.data();
  memory[data_region(1)] = reinterpret_cast<std::byte*>(targets.data());
  memory[Region::losses] = losses.data();
  memory[Region::tally] = tally.data();
  ReferenceKernels kernels;
  head.saving_nothing().backward.run(kernels, memory, 1.0F / static_cast<float>(shape.tokens()));
  EXPECT_TRUE(workspace.intact() && input_gradient.intact() && losses.intact());
  return {floats_of(losses), floats_of(input_gradient), floats_of(gradient), floats_of(shared_gradient)};
}

TEST(Head, ChunksOfRowsChangeNothingButTheOrderOfSums) {
  constexpr MicrobatchShape kLong{2, 75};  // two chunks of 64 rows, one of 22
  for (const TinyArchitecture& tiny : tiny_architectures()) {
    const Model model = build_model(tiny.architecture);
    const HeadResult whole = run_head(model, 64 * MiB, kLong);
    const HeadResult chunked = run_head(model, 1, kLong);
    EXPECT_EQ(whole.losses, chunked.losses) << tiny.name;
    EXPECT_EQ(whole.input_gradient, chunked.input_gradient) << tiny.name;
    for (std::size_t i = 0; i < whole.gradient.size(); ++i) {
      EXPECT_NEAR(whole.gradient[i], chunked.gradient[i], 1e-6) << tiny.name;
    }
    for (std::size_t i = 0; i < whole.shared_gradient.size(); ++i) {
      EXPECT_NEAR(whole.shared_gradient[i], chunked.shared_gradient[i], 1e-6) << tiny.name;
    }
  }
}

struct RotaryGolden {
  std::int64_t position, index;
  float cosine, sine;
};

void expect_rotary(const RopeOptions& rope, std::span<const RotaryGolden> goldens,
                   std::int64_t sequence = 8192) {
  const Rotation rotation = {128, rope};
  std::vector<std::byte> memory(static_cast<std::size_t>(2 * rotary_table_bytes(rotation, sequence)));
  fill_rotary_tables(rotation, sequence, memory);
  const RotaryTables tables = rotary_tables(rotation, sequence, memory.data());
  for (const RotaryGolden& golden : goldens) {
    EXPECT_NEAR(tables.cosine.row<float>(golden.position)[golden.index], golden.cosine, 1e-6) << golden.index;
    EXPECT_NEAR(tables.sine.row<float>(golden.position)[golden.index], golden.sine, 1e-6) << golden.index;
  }
}

// Goldens: LlamaRotaryEmbedding of transformers 5.
TEST(Rotary, TablesAreThoseOfTransformers) {
  constexpr RotaryGolden kGoldens[] = {
      {1, 1, 0.647905827F, 0.761720419F},     {1, 20, 0.998419285F, 0.0562044941F},
      {1, 28, 0.999841869F, 0.0177818574F},   {1, 30, 0.99991107F, 0.01333482F},
      {1, 63, 1.0F, 0.000115478193F},         {500, 1, 0.848523021F, -0.529158413F},
      {500, 20, -0.987658501F, 0.156622842F}, {500, 28, -0.861093163F, 0.50844717F},
      {500, 30, 0.927015364F, 0.375023395F},  {500, 63, 0.998333573F, 0.0577070229F},
      {8191, 1, 0.824230731F, -0.566254079F}, {8191, 20, -0.362002552F, 0.932177126F},
      {8191, 28, 0.412488312F, 0.91096288F},  {8191, 30, -0.747172713F, 0.664629877F},
      {8191, 63, 0.585027874F, 0.811013162F},
  };
  expect_rotary({10000, {}}, kGoldens);
}

TEST(Rotary, Llama3ScalingIsThatOfTransformers) {
  // Indices up to 28 are kept, 30 is interpolated, 63 divided.
  constexpr RotaryGolden kGoldens[] = {
      {1, 1, 0.686146915F, 0.727463007F},       {1, 20, 0.99986285F, 0.0165596846F},
      {1, 28, 0.999994874F, 0.00321144052F},    {1, 30, 0.999999046F, 0.00137189322F},
      {1, 63, 1.0F, 3.06892588e-07F},           {500, 1, 0.454975873F, -0.890503764F},
      {500, 20, -0.413448691F, 0.910527408F},   {500, 28, -0.0349195972F, 0.999390125F},
      {500, 30, 0.773819685F, 0.633405983F},    {500, 63, 1.0F, 0.000153446294F},
      {8191, 1, 0.977398813F, -0.211403862F},   {8191, 20, -0.848267138F, -0.529568493F},
      {8191, 28, 0.388112843F, 0.921611845F},   {8191, 30, 0.2392627F, -0.970954895F},
      {8191, 63, 0.999996841F, 0.00251375465F},
  };
  expect_rotary({500000, RopeOptions::Llama3{8, 1, 4, 8192}}, kGoldens);
}

// Goldens: Phi3RotaryEmbedding.
TEST(Rotary, LongRopeIsThatOfTransformersInShortAndLongSequences) {
  RopeOptions::LongRope long_rope{.short_factors = {},
                                  .long_factors = {},
                                  .attention_factor = std::sqrt(1 + std::log(32) / std::log(4096)),
                                  .original_max_positions = 4096};
  for (int i = 0; i < 64; ++i) {
    long_rope.short_factors.push_back(1 + i / 100.0);
    long_rope.long_factors.push_back(1 + i * 0.75);
  }
  constexpr RotaryGolden kShort[] = {
      {0, 1, 1.19023812F, 0.0F},
      {1, 1, 0.77890712F, 0.899983585F},
      {1, 63, 1.19023812F, 8.43230373e-05F},
      {500, 20, -0.155545935F, -1.18003058F},
      {4095, 1, 0.333645433F, -1.14251804F},
      {4095, 63, 1.14050007F, 0.340479463F},
  };
  constexpr RotaryGolden kLong[] = {
      {1, 1, 1.04746449F, 0.565229893F},      {500, 20, -0.220718384F, 1.16959405F},
      {4095, 63, 1.1901809F, 0.0116649652F},  {8191, 1, 1.01238036F, 0.625901639F},
      {8191, 63, 1.19000936F, 0.0233316589F},
  };
  expect_rotary({.long_rope = long_rope}, kShort, 4096);
  expect_rotary({.long_rope = long_rope}, kLong, 8192);
}

}  // namespace
}  // namespace strata::test
