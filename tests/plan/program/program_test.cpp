// A program says all that it means: what each operand is, who exchanges values, where state lives, what it
// computes.
#include "engine/plan/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/model/model.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

/// Strategies that differ in where state lives, in how it is stored, and between ranks.
std::vector<Strategy> strategies(const Model& model) {
  std::vector<Strategy> result;
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const Mesh mesh :
         {Mesh{}, Mesh{.replicate = 2, .shard = 2}, Mesh{.shard = 3}, Mesh{.replicate = 4}}) {
      for (const int stage : {1, 2, 3}) {
        for (const std::size_t units : {0, 2}) {
          for (const bool pinned : {false, true}) {
            StrategyOptions options{.precision = precision, .units_on_device = units, .saves = true};
            options.mesh = mesh;
            options.zero_stage = stage;
            options.pins.parameters = pinned;
            result.push_back(tiny_strategy(model, options));
            if (precision != DType::bf16) continue;
            result.push_back(result.back());
            result.back().state_format = {.master = MasterFormat::split, .moments = MomentFormat::bf16};
            result.push_back(result.back());
            result.back().state_format = {.master = MasterFormat::none, .moments = MomentFormat::coded};
          }
        }
      }
    }
  }
  return result;
}

/// All state of the host on the nvme tier, as a budget could send it there.
Program spilled(const Program& program) {
  return keep_resident(spill(program, find_spill_order(program, {}).buffers), kHostPair, kUnlimited);
}

TEST(Program, SaysWhatEachOperandIs) {
  const Model model = tiny_model();
  for (const Strategy& strategy : strategies(model)) {
    const Program program = lower_training(model, strategy);
    for (const Instruction& instruction : program.instructions) {
      for_each_operand(instruction, [&](const Operand& operand, bool) {
        EXPECT_GT(operand.elements, 0) << print(program, instruction);
        EXPECT_GT(operand.bytes(), program.buffer(operand.buffer).bytes - kBufferAlignment)
            << print(program, instruction);
      });
    }
  }
}

TEST(Program, SaysWhatItComputes) {
  const Model model = tiny_model();
  for (const Strategy& strategy : strategies(model)) {
    const UnitCompute compute(model, strategy.precision, strategy.microbatch);
    double flops = 0;  // of a microbatch; the head's forward pass happens inside its backward pass
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      if (u + 1 < model.units.size())
        flops += compute.passes(model.units[u]).saving_nothing().forward.flops();
      flops += (strategy.saved_level[u] > 0 ? compute.passes(model.units[u]).saving_all()
                                            : compute.passes(model.units[u]).saving_nothing())
                   .backward.flops();
    }
    EXPECT_DOUBLE_EQ(executed_flops(lower_training(model, strategy)),
                     flops * static_cast<double>(strategy.microbatches));
  }
}

TEST(Program, DecidesAStepBeforeItsUpdatesAndReportsItOnce) {
  const Model model = tiny_model();
  for (Strategy strategy : strategies(model)) {
    for (const bool clips : {true, false}) {
      strategy.global_norm = clips;
      int reports = 0;
      bool is_decided = false;
      const Program program = lower_training(model, strategy);
      for (const Instruction& instruction : program.instructions) {
        is_decided |= instruction.effect != Effect::none;
        reports += instruction.effect == Effect::reports ? 1 : 0;
        EXPECT_TRUE(is_decided || instruction.operation != Operation::update) << print(program, instruction);
      }
      EXPECT_EQ(reports, 1);
    }
  }
}

TEST(Program, HasEveryRankOnceInEachGroupThatExchanges) {
  const Model model = tiny_model();
  for (const Strategy& strategy : strategies(model)) {
    const Program program = lower_training(model, strategy);
    for (const Instruction& instruction : program.instructions) {
      if (instruction.exchange.group < 0) continue;
      const RankGroup& group = program.groups.at(static_cast<std::size_t>(instruction.exchange.group));
      std::set<std::pair<std::int64_t, std::int64_t>> places;
      for (std::int64_t rank = 0; rank < strategy.mesh.data(); ++rank) {
        EXPECT_LT(group.set_of(rank), group.sets);
        EXPECT_LT(group.part_of(rank), group.ranks);
        places.emplace(group.set_of(rank), group.part_of(rank));
      }
      EXPECT_EQ(std::ssize(places), strategy.mesh.data());
      EXPECT_EQ(group.sets * group.ranks, strategy.mesh.data());
      EXPECT_GT(group.ranks, 1) << print(program, instruction);
    }
  }
}

TEST(Program, SaysWhereUpdatesLeaveState) {
  const Model model = tiny_model();
  for (const Strategy& strategy : strategies(model)) {
    for (const bool spills : {false, true}) {
      const Program lowered = lower_training(model, strategy);
      const Program program = spills ? spilled(lowered) : lowered;
      std::map<BufferId, BufferId> home;  // of what is on the nvme tier, by the host's buffer
      for (const Instruction& instruction : program.instructions) {
        if (instruction.operation == Operation::write)
          home[instruction.reads[0].buffer] = instruction.writes[0].buffer;
      }
      std::map<std::pair<std::int32_t, StateKey>, std::vector<BufferId>> places;
      for (const StateEntry& place : program.state) {
        EXPECT_TRUE(program.buffer(place.buffer).persistent) << *program.buffer(place.buffer).name;
        places[{place.unit, place.part}].push_back(place.buffer);
      }
      for (const Instruction& instruction : program.instructions) {
        if (instruction.operation != Operation::update) continue;
        const auto expect_place = [&](Role role, StateKey part) {
          BufferId id = instruction.find(role);
          if (const auto found = home.find(id); found != home.end()) id = found->second;
          const std::vector<BufferId>& kept = places[{instruction.unit, part}];
          ASSERT_EQ(kept.size(), 1U) << print(program, instruction);
          EXPECT_EQ(kept[0], id) << print(program, instruction);
        };
        const bool is_own_master = instruction.find(Role::master) < 0;
        expect_place(is_own_master ? Role::parameter : Role::master, StateKey::master);
        expect_place(role_of(Moment::exp_avg), key_of(Moment::exp_avg));
        expect_place(role_of(Moment::exp_avg_sq), key_of(Moment::exp_avg_sq));
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
