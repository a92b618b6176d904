// What the forward passes of a microbatch add up for one another (the auxiliary loss of routing): one small
// value, whose way through the program every pass keeps.
#include <gtest/gtest.h>

#include "engine/config/choices.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::tiny_strategy;

Model balanced_model() {
  Architecture a;
  a.model_type = "mixtral";
  a.family = Family::llama;
  a.layers = 3;
  a.hidden = 16;
  a.heads = 2;
  a.kv_heads = 1;
  a.head_dimension = 8;
  a.intermediate = a.expert_intermediate = 12;
  a.vocabulary = 40;
  a.max_positions = 64;
  a.experts = 3;
  a.experts_per_token = 2;
  a.balance_coefficient = 0.1;
  return build_model(a);
}

/// "forward 0 writes", for each instruction that has a tally, of one microbatch.
std::vector<std::string> touches_of(const Program& plain, std::int32_t microbatch) {
  std::vector<std::string> touches;
  for (const Instruction& instruction : plain.instructions) {
    if (instruction.microbatch != microbatch) continue;
    const auto has = [](const OperandList& operands) {
      return std::ranges::any_of(operands, [](const Operand& o) { return o.role == Role::tally; });
    };
    const bool reads = has(instruction.reads), writes = has(instruction.writes);
    if (!reads && !writes) continue;
    touches.push_back(std::string(name_of(instruction.operation)) + " " + std::to_string(instruction.unit) +
                      (reads ? " reads" : "") + (writes ? " writes" : ""));
  }
  return touches;
}

TEST(Tally, IsBegunByTheFirstUnitAddedToByLayersAndReadByTheirBackwardPasses) {
  const Model model = balanced_model();
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const bool save : {false, true}) {
      const Program plain = lower_training(model, tiny_strategy(model, {.order = order, .save = save}));
      for (const std::int32_t microbatch : {0, 2}) {
        EXPECT_EQ(
            touches_of(plain, microbatch),
            (std::vector<std::string>{"forward 0 writes", "forward 1 reads writes", "forward 2 reads writes",
                                      "forward 3 reads writes", "backward 4 reads", "backward 3 reads",
                                      "backward 2 reads", "backward 1 reads"}));
      }
    }
  }
  EXPECT_EQ(touches_of(lower_training(test::tiny_model(), tiny_strategy(test::tiny_model())), 0),
            std::vector<std::string>());
}

TEST(Tally, IsReadByTheHeadOfAValidation) {
  const Model model = balanced_model();
  Strategy strategy = tiny_strategy(model);
  strategy.validation_microbatches = 2;
  EXPECT_EQ(touches_of(lower_validation(model, strategy), 1),
            (std::vector<std::string>{"forward 0 writes", "forward 1 reads writes", "forward 2 reads writes",
                                      "forward 3 reads writes", "forward 4 reads"}));
}

TEST(Tally, GivesBothOrdersTheSameMeaningWhichThePassesKeepAtEveryBudget) {
  const Model model = balanced_model();
  for (const bool save : {false, true}) {
    StrategyOptions options = {.save = save};
    const auto expected = run_in_order(lower_training(model, tiny_strategy(model, options)), 3);
    for (const Order order : {Order::layer_major, Order::microbatch_major}) {
      options.order = order;
      const Program plain = lower_training(model, tiny_strategy(model, options));
      EXPECT_EQ(run_in_order(plain, 3), expected);
      const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
      for (const Bytes budget : {smallest, smallest + kBufferAlignment, 2 * smallest, kUnlimited}) {
        const Program placed =
            place(prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget));
        verify(placed, kNoLimits);
        for (std::uint32_t seed = 0; seed < 3; ++seed)
          EXPECT_EQ(run_in_random_order(placed, 3, seed), expected);
      }
    }
  }
}

}  // namespace
}  // namespace strata
