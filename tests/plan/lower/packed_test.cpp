// Programs whose parameters are kept in fewer bytes than passes read, on the symbolic machine: all passes
// keep their meaning, and what travels is what is kept.
#include <gtest/gtest.h>

#include "base/precision.h"
#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/program/memory.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::tiny_model;
using test::tiny_strategy;

Model model_with_frozen_parts() {
  return tiny_model(3, true, 40, {"model.layers.0.*", "*.1.self_attn.o_proj.*"}, Rounding::e4m3);
}

/// Codes with a scale for each matrix, and for each block.
constexpr PackedParameters kBoth = {ParameterFormat::fp8, ParameterFormat::nf4};

std::vector<StrategyOptions> packed_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const PackedParameters packed : {kBoth, PackedParameters{.frozen = ParameterFormat::fp8},
                                          PackedParameters{.frozen = ParameterFormat::int8}})
      options.push_back({.order = order, .microbatches = 2, .packed = packed});
    options.push_back(
        {.order = order, .microbatches = 2, .units_on_device = 2, .clips = false, .packed = kBoth});
    options.push_back(
        {.order = order, .microbatches = 2, .pins = {.parameters = true}, .saves = true, .packed = kBoth});
    for (const int stage : {1, 3}) {
      for (const std::size_t units_on_device : {0U, 5U})
        options.push_back({.order = order,
                           .microbatches = 2,
                           .units_on_device = units_on_device,
                           .mesh = {.replicate = 2, .shard = 3},
                           .zero_stage = stage,
                           .packed = kBoth});
    }
  }
  return test::with_pieces(test::with_late_updates(std::move(options)));
}

// Invariant (PackedPrograms.*): Packed parameters change no result.
TEST(PackedPrograms, KeepTheirMeaningAtEveryBudgetInAnyInterleaving) {
  const Model model = model_with_frozen_parts();
  for (const StrategyOptions& options : packed_options()) {
    const Program plain = lower_training(model, tiny_strategy(model, options));
    const auto expected = run_in_order(plain, 3);
    const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
    for (const Bytes budget : {smallest, smallest + smallest / 3, kUnlimited}) {
      const Program placed = place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
      verify(placed, kNoLimits);
      EXPECT_EQ(run_in_order(placed, 3), expected);
      EXPECT_EQ(run_in_random_order(placed, 3, 1), expected);
    }
  }
}

/// Which parameters are whole where: bytes of the operands of copies and exchanges.
TEST(PackedPrograms, SendAndCopyOnlyWhatIsPacked) {
  const Model model = model_with_frozen_parts();
  for (const StrategyOptions& options : packed_options()) {
    if (!options.packed.has(Flat::trained)) continue;
    const Program plain = lower_training(model, tiny_strategy(model, options));
    for (const Instruction& instruction : plain.instructions) {
      const bool is_of_block = instruction.unit > 0 && instruction.unit + 1 < std::ssize(model.units);
      const bool moves = instruction.operation == Operation::copy_to_device || instruction.lane == Lane::comm;
      if (!is_of_block || !moves) continue;
      const Operand& moved = instruction.reads.front();
      if (plain.buffer(moved.buffer).kind == BufferKind::parameter) {
        EXPECT_EQ(moved.type, ElementType::packed) << print(plain, instruction);
      }
    }
  }
}

/// Between its last backward pass and its update nothing of it is there, as of a parameter that is not
/// packed.
TEST(PackedPrograms, RenewWhatUpdatesMake) {
  const Model model = tiny_model(2, true, 40, {}, Rounding::e4m3);
  const Program program =
      lower_training(model, tiny_strategy(model, {.packed = {.trained = ParameterFormat::fp8}}));
  int renewed = 0;
  for (const Buffer& buffer : program.buffers)
    renewed += buffer.renewed && buffer.name->find("packed_parameter") != std::string::npos ? 1 : 0;
  EXPECT_EQ(renewed, 2);
}

}  // namespace
}  // namespace strata
