// Units of random operators, run on the reference kernels in memory that is poisoned with NaN and guarded.
// Derived passes give the derivative. Keeping a value, making it again, sharing it in place and placing it
// change no bit.
// Not in a unity build: it has many names in common with others.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "engine/device/attention_calls.h"
#include "engine/device/norm_calls.h"
#include "engine/device/product_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/model/graph/unit_builder.h"
#include "engine/model/graph/unit_passes.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {
namespace {

constexpr MicrobatchShape kShape{2, 5};
constexpr std::int64_t kHeads = 3, kDimension = 4, kColumns = kHeads * kDimension;
const Axis kHidden("hidden", kColumns);
constexpr std::uint64_t kGraphs = 200;
constexpr std::int64_t kExperts = 3;
/// As if there were two layers: how many a unit has does not matter.
constexpr BalanceOptions kBalance = {.coefficient = 3, .layers = 2};

TensorView attention(UnitBuilder& builder, const TensorView& x, const std::string& name, bool norms,
                     float soft_cap) {
  const TensorView qkv = builder.linear(x, {{name + ".q", query_axis(kHeads, kHeads, kDimension)},
                                            {name + ".k", key_axis(kHeads, kDimension)},
                                            {name + ".v", key_axis(kHeads, kDimension)}});
  TensorView rotated = builder.columns(qkv, 0, 2 * kColumns);
  if (norms) {
    rotated = builder.head_norm(rotated, name + ".qn", name + ".kn", kHeads, kDimension, {}, /*tables=*/0);
  } else {
    builder.rope(rotated, kDimension, 0, kDimension);
  }
  AttentionShape shape;
  shape.heads = shape.kv_heads = kHeads;
  shape.head_dimension = kDimension;
  shape.scale = 0.5F;
  shape.soft_cap = soft_cap;
  return builder.attention(builder.columns(rotated, 0, kColumns),
                           builder.columns(rotated, kColumns, kColumns),
                           builder.columns(qkv, 2 * kColumns, kColumns), shape);
}

/// Values of equal width, each made from some before it.
UnitBuilder::Built random_unit(std::uint64_t seed) {
  const CounterRandom random(seed, 7);
  std::uint64_t next = 0;
  const auto pick = [&](std::uint64_t count) { return random.integer(next++) % count; };
  UnitBuilder builder("unit", "");
  std::vector<TensorView> values = {builder.input(kHidden)};
  const std::uint64_t operators = 3 + pick(8);
  for (std::uint64_t i = 0; i < operators; ++i) {
    const std::string name = "op" + std::to_string(i);
    const TensorView x = values[values.size() - 1 - pick(std::min<std::uint64_t>(values.size(), 3))];
    switch (pick(9)) {
      case 0:
        values.push_back(builder.norm(x, name, {NormKind::layer_norm, 1e-5}));
        break;
      case 1:
        values.push_back(builder.norm(x, name, {NormKind::rms_norm, 1e-5, /*unit_offset=*/pick(2) == 0}));
        break;
      case 2:
        values.push_back(builder.linear(x, {{name, kHidden}}, {WeightOrder::conv1d, Init::normal, true}));
        break;
      case 3:
        values.push_back(
            builder.activate_gate(builder.linear(x, {{name + ".gate", kHidden}, {name + ".up", kHidden}}),
                                  pick(2) == 0 ? Activation::silu : Activation::gelu_tanh));
        break;
      case 4:
        values.push_back(builder.activate(builder.linear(x, {{name, kHidden}}), Activation::gelu_tanh));
        break;
      case 5:
        values.push_back(attention(builder, x, name, pick(2) == 0, pick(2) == 0 ? 1.0F : 0.0F));
        break;
      case 6:
        values.push_back(builder.scale(x, 0.5));
        break;
      case 7: {
        const bool is_balanced = pick(2) == 0;  // if all are chosen, nothing balances them
        values.push_back(builder.experts(x, {.experts = kExperts,
                                             .top_k = is_balanced ? kExperts - 1 : kExperts,
                                             .intermediate = 5,
                                             .normalise = pick(2) == 0,
                                             .router = name + ".router",
                                             .gate = name + ".{}.gate",
                                             .up = name + ".{}.up",
                                             .down = name + ".{}.down",
                                             .balance = is_balanced ? kBalance : BalanceOptions{}}));
        break;
      }
      default:
        values.push_back(builder.add(x, values[pick(values.size())]));
        break;
    }
  }
  builder.output(builder.add(values.back(), builder.linear(values.back(), {{"last", kHidden}})));
  return builder.finish();
}

/// Applies activations to sums that are a little different from what is stored of them, as a device does that
/// rounds them later.
class KernelsThatRoundLater final : public Kernels {
 public:
  void run(const KernelCall& call) override {
    kernels_.run(call);
    const auto* product = call.as<Product>();
    if (product == nullptr || !product->activated) return;
    ASSERT_TRUE(product->activated.contiguous());
    const std::span values(product->activated.row<float>(0),
                           static_cast<std::size_t>(product->activated.elements()));
    for (float& value : values) value *= 1.00001F;
  }

 private:
  ReferenceKernels kernels_;
};

struct Gradients {
  std::vector<float> input, parameter;
};

class RandomUnit {
 public:
  explicit RandomUnit(std::uint64_t seed)
      : built_(random_unit(seed)),
        passes_(make_passes(
            derive(built_.graph),
            {.precision = DType::fp32, .microbatch = kShape, .constants = {0, align_up(kTableBytes)}})),
        input_(random_values(kShape.tokens() * kColumns, seed + 1)),
        parameter_(static_cast<std::size_t>(built_.unit.elements)),
        direction_(random_values(kShape.tokens() * kColumns, seed + 2)),
        tables_(random_values(2 * align_up(kTableBytes) / 4, 3)) {
    for (std::size_t i = 0; i < tables_.size() / 2; ++i) {  // of angles: cosines, then sines
      tables_[tables_.size() / 2 + i] = std::sin(tables_[i]);
      tables_[i] = std::cos(tables_[i]);
    }
    for (const TensorSpec& tensor : built_.unit.tensors) {
      const std::vector<float> values =
          random_values(tensor.elements, seed + 10 + static_cast<std::uint64_t>(tensor.offset));
      for (std::size_t i = 0; i < values.size(); ++i)
        parameter_[static_cast<std::size_t>(tensor.offset) + i] =
            (tensor.init == Init::ones ? 1 : 0) + 0.3F * values[i];
    }
  }

  std::vector<float>& input() { return input_; }
  std::vector<float>& parameter() { return parameter_; }
  const Unit& unit() const { return built_.unit; }
  std::size_t levels() const { return passes_.levels.size(); }

  /// The output, and what the level saves on the way.
  std::vector<float> forward(std::size_t level, GuardedMemory* saved = nullptr) {
    const UnitPass& pass = passes_.levels[level].forward;
    GuardedMemory output(kShape.tokens() * kColumns * 4), workspace(pass.workspace_bytes());
    UnitMemory memory = common();
    memory[Region::output] = output.data();
    memory[Region::workspace] = workspace.data();
    if (saved != nullptr) memory[Region::saved] = saved->data();
    tally_ = in_memory(std::vector<float>(2 * kExperts), DType::fp32);
    memory[Region::tally] = tally_.data();
    pass.run(kernels_, memory, 1);
    EXPECT_TRUE(output.intact() && workspace.intact() && tally_.intact());
    return floats_of(output);
  }

  /// That of objective(), by the backward pass whole or in two.
  Gradients backward(std::size_t number, bool in_two = false) {
    const UnitPasses::Level& level = passes_.levels[number];
    GuardedMemory saved(level.saved_bytes), pending(level.pending_bytes);
    forward(number, &saved);
    const std::vector<float> tally = floats_of(tally_);
    GuardedMemory output_gradient = in_memory(direction_, DType::fp32);
    GuardedMemory input_gradient(output_gradient.size());
    GuardedMemory gradient = in_memory(std::vector<float>(parameter_.size()), DType::fp32);
    UnitMemory memory = common();
    memory[Region::saved] = saved.data();
    memory[Region::pending] = pending.data();
    memory[Region::output_gradient] = output_gradient.data();
    memory[Region::input_gradient] = input_gradient.data();
    memory[Region::gradient] = gradient.data();
    memory[Region::tally] = tally_.data();
    const auto run = [&](const UnitPass& pass) {
      GuardedMemory workspace(pass.workspace_bytes());
      memory[Region::workspace] = workspace.data();
      pass.run(kernels_, memory, 1);
      EXPECT_TRUE(saved.intact() && pending.intact() && input_gradient.intact() && gradient.intact() &&
                  workspace.intact());
    };
    if (in_two) {
      run(level.input_gradient);
      const std::vector<float> handed_on = floats_of(input_gradient);
      run(level.weight_gradient);
      EXPECT_EQ(floats_of(input_gradient), handed_on) << "the unit before may have it already";
    } else {
      run(level.backward);
    }
    EXPECT_EQ(floats_of(output_gradient), direction_) << "the output's gradient is another unit's";
    EXPECT_EQ(floats_of(tally_), tally) << "a backward pass adds nothing to it";
    return {floats_of(input_gradient), floats_of(gradient)};
  }

  /// The scalar product of the output and a fixed direction, and the auxiliary loss of each token.
  double objective() {
    const std::vector<float> output = forward(0), tally = floats_of(tally_);
    double sum = 0, balance = 0;
    for (std::size_t i = 0; i < output.size(); ++i) sum += double{output[i]} * direction_[i];
    for (std::size_t e = 0; e < kExperts; ++e) balance += double{tally[e]} * tally[kExperts + e];
    const auto tokens = static_cast<double>(kShape.tokens()), rows = tokens * kBalance.layers;
    return sum + tokens * kBalance.coefficient * kExperts * balance / (rows * rows);
  }
  /// How many tokens each expert had in the last forward pass.
  std::vector<float> chosen() {
    std::vector<float> tally = floats_of(tally_);
    tally.resize(kExperts);
    return tally;
  }

 private:
  static constexpr Bytes kTableBytes = kShape.sequence * kDimension / 2 * 4;

  UnitMemory common() {
    UnitMemory memory;
    memory[Region::parameter] = reinterpret_cast<std::byte*>(parameter_.data());
    memory[Region::input] = reinterpret_cast<std::byte*>(input_.data());
    memory[Region::constants] = reinterpret_cast<std::byte*>(tables_.data());
    return memory;
  }

  UnitBuilder::Built built_;
  UnitPasses passes_;
  std::vector<float> input_, parameter_, direction_, tables_;
  GuardedMemory tally_{0};
  KernelsThatRoundLater kernels_;
};

/// The derivative along `direction`, by central difference, and along it by the gradient. Returns false if
/// there is none, since other experts are chosen on the way.
bool expect_derivative(RandomUnit& unit, std::span<float> values, std::span<const float> gradient,
                       std::uint64_t seed, const std::string& what) {
  const std::vector<float> direction = random_values(std::ssize(values), seed);
  const std::vector<float> start(values.begin(), values.end());
  constexpr float kStep = 1e-3F;
  const std::vector<float> chosen = unit.chosen();
  bool are_chosen_alike = true;
  const auto moved = [&](float step) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = start[i] + step * direction[i];
    const double objective = unit.objective();
    are_chosen_alike &= unit.chosen() == chosen;
    return objective;
  };
  // The fourth order is wanted, since some of these functions bend much.
  const double measured =
      (8 * (moved(kStep) - moved(-kStep)) - (moved(2 * kStep) - moved(-2 * kStep))) / (12 * double{kStep});
  moved(0);
  if (!are_chosen_alike) return false;
  double derived = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    derived += double{gradient[i]} * direction[i];
    size += double{gradient[i]} * gradient[i];
  }
  EXPECT_NEAR(derived, measured, 0.02 * std::sqrt(size) + 2e-3) << what;
  return true;
}

TEST(RandomGraphLongTest, HasTheDerivativeOfItsForwardPass) {
  std::int64_t measured = 0, without = 0;
  const auto count = [&](bool is_measured) { ++(is_measured ? measured : without); };
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    RandomUnit unit(100 * seed);
    const Gradients gradients = unit.backward(0);
    const std::string graph = "graph " + std::to_string(seed);
    count(expect_derivative(unit, unit.input(), gradients.input, seed, graph + ", input"));
    for (const TensorSpec& tensor : unit.unit().tensors) {
      const auto first = static_cast<std::size_t>(tensor.offset),
                 elements = static_cast<std::size_t>(tensor.elements);
      count(expect_derivative(unit, std::span(unit.parameter()).subspan(first, elements),
                              std::span(gradients.parameter).subspan(first, elements), seed,
                              graph + ", " + tensor.hf_name));
    }
  }
  EXPECT_LT(without, measured / 20);
}

TEST(RandomGraphLongTest, HasTheSameBitsWhateverIsSaved) {
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    RandomUnit unit(100 * seed);
    const Gradients recomputed = unit.backward(0);
    for (std::size_t level = 1; level < unit.levels(); ++level) {
      const Gradients saved = unit.backward(level);
      EXPECT_EQ(saved.input, recomputed.input) << "graph " << seed << ", level " << level;
      EXPECT_EQ(saved.parameter, recomputed.parameter) << "graph " << seed << ", level " << level;
    }
  }
}

TEST(RandomGraphLongTest, HasTheSameBitsIfItsBackwardPassIsDivided) {
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    RandomUnit unit(100 * seed);
    for (std::size_t level = 0; level < unit.levels(); ++level) {
      const Gradients whole = unit.backward(level), divided = unit.backward(level, /*in_two=*/true);
      EXPECT_EQ(divided.input, whole.input) << "graph " << seed << ", level " << level;
      EXPECT_EQ(divided.parameter, whole.parameter) << "graph " << seed << ", level " << level;
    }
  }
}

}  // namespace
}  // namespace strata::test
