// Timelines of programs by rates that are easy to add up.
#include "engine/plan/cost/timeline.h"

#include <gtest/gtest.h>

#include "engine/plan/program/memory.h"

namespace strata::test {
namespace {

const MachineRates kRates = {.flops_per_second = 1,
                             .memory_bytes_per_second = kBufferAlignment,
                             .h2d_bytes_per_second = kBufferAlignment,
                             .d2h_bytes_per_second = kBufferAlignment,
                             .nvme_read_bytes_per_second = kBufferAlignment,
                             .nvme_write_bytes_per_second = kBufferAlignment,
                             .cores_copy = false};

/// Each microbatch's page comes to the device, is computed on for `flops` seconds in `rooms` places in turn.
double seconds(int microbatches, double flops, int rooms, const MachineRates& rates = kRates) {
  Program program;
  program.units = {"unit"};
  const BufferId home =
      program.add({.name = "home", .tier = Tier::host, .bytes = kBufferAlignment, .persistent = true});
  std::vector<BufferId> near;
  for (int room = 0; room < rooms; ++room)
    near.push_back(program.add({.name = "near", .tier = Tier::device, .bytes = kBufferAlignment}));
  for (int mb = 0; mb < microbatches; ++mb) {
    const auto page = [&](Role role, BufferId id) {
      return Operand{role, ElementType::byte, id, kBufferAlignment};
    };
    const BufferId to = near[static_cast<std::size_t>(mb % rooms)];
    program.instructions.push_back({.operation = Operation::copy_to_device,
                                    .lane = Lane::h2d,
                                    .reads = {page(Role::source, home)},
                                    .writes = {page(Role::destination, to)}});
    program.instructions.push_back({.operation = Operation::forward,
                                    .lane = Lane::compute,
                                    .reads = {page(Role::input, to)},
                                    .flops = flops});
  }
  const Program placed = place(program);
  return simulated_seconds(placed, find_dependencies(placed), rates);
}

TEST(Timeline, AddsUpWhatWaitsForOneAnother) {
  EXPECT_DOUBLE_EQ(seconds(4, 3, 1), 4 * (1 + 3));
}

TEST(Timeline, HidesCopiesBehindComputingIfTheyHaveRoom) {
  EXPECT_DOUBLE_EQ(seconds(4, 3, 2), 4 * 3);
  EXPECT_DOUBLE_EQ(seconds(4, 0.25, 2), 4 * 1);
}

MachineRates rates_of_cores(double cores) {
  MachineRates rates = kRates;
  rates.cores_copy = true;
  rates.memory_bytes_per_second *= 4;
  rates.cores = cores;
  rates.copy_bytes_per_second = kBufferAlignment;
  return rates;
}

TEST(Timeline, LetsCopiesTakeCoresFromComputing) {
  // While one of two cores copies for a second, both together are wanted one and a half times.
  EXPECT_DOUBLE_EQ(seconds(4, 3, 2, rates_of_cores(2)), 4 * (3 + 0.5));
  EXPECT_DOUBLE_EQ(seconds(4, 3, 2, rates_of_cores(1)), 4 * (3 + 1));
}

TEST(Timeline, LetsACopyOverASlowLinkTakeLessOfACore) {
  MachineRates rates = rates_of_cores(2);
  rates.h2d_bytes_per_second /= 2;
  EXPECT_DOUBLE_EQ(seconds(4, 3, 2, rates), 4 * (3 + 0.5));
  EXPECT_DOUBLE_EQ(seconds(4, 3, 1, rates), 4 * (3 + 2));
}

/// Seconds of a step of two instructions on lanes of their own, each from one page to another, and of
/// something that waits for both.
double seconds_of_both(Instruction one, Instruction other) {
  Program program;
  Instruction last = {.operation = Operation::forward, .lane = Lane::compute, .flops = 1e-9};
  for (Instruction* instruction : {&one, &other}) {
    const auto page = [&](Tier tier) {
      return program.add({.name = "page", .tier = tier, .bytes = kBufferAlignment, .persistent = true});
    };
    const Operation operation = instruction->operation;
    const BufferId from = page(operation == Operation::read ? Tier::nvme : Tier::host);
    const BufferId to = page(operation == Operation::copy_to_device ? Tier::device
                             : operation == Operation::write        ? Tier::nvme
                                                                    : Tier::host);
    instruction->reads = {{Role::source, ElementType::byte, from, kBufferAlignment}};
    instruction->writes = {{Role::destination, ElementType::byte, to, kBufferAlignment}};
    last.reads.push_back(instruction->writes.front());
    program.instructions.push_back(*instruction);
  }
  program.instructions.push_back(last);
  const Program placed = place(program);
  return simulated_seconds(placed, find_dependencies(placed), kRates);
}

TEST(Timeline, LetsADriveReadAndWriteInTurns) {
  EXPECT_NEAR(seconds_of_both({.operation = Operation::read, .lane = Lane::read},
                              {.operation = Operation::write, .lane = Lane::write}),
              2, 1e-6);
}

TEST(Timeline, SharesTheHostsMemoryBetweenUpdatesAndCopies) {
  // An update touches two pages, a copy one; a page takes the memory a second.
  EXPECT_NEAR(seconds_of_both({.operation = Operation::update, .lane = Lane::cpu},
                              {.operation = Operation::copy_to_device, .lane = Lane::h2d}),
              3, 1e-6);
}

TEST(Timeline, CountsPassesOverMemoryIfItIsTheHosts) {
  Program program;
  const BufferId page = program.add({.name = "page", .tier = Tier::device, .bytes = kBufferAlignment});
  program.instructions.push_back({.operation = Operation::stash,
                                  .lane = Lane::compute,
                                  .writes = {{Role::gradient, ElementType::byte, page, kBufferAlignment}}});
  MachineRates rates = kRates;
  rates.cores_copy = true;
  EXPECT_DOUBLE_EQ(InstructionCosts(program, rates).seconds_of(program.instructions[0]), 1);
  rates.cores_copy = false;
  EXPECT_DOUBLE_EQ(InstructionCosts(program, rates).seconds_of(program.instructions[0]), 0);
  program.instructions[0].lane = Lane::cpu;
  EXPECT_DOUBLE_EQ(InstructionCosts(program, rates).seconds_of(program.instructions[0]), 1);
}

TEST(Timeline, LeavesOutWhatOnlyStepsThatSaveDo) {
  Program program;
  program.instructions.push_back({.operation = Operation::forward, .lane = Lane::compute, .flops = 5});
  program.instructions.push_back(
      {.operation = Operation::forward, .lane = Lane::compute, .when = When::saving, .flops = 7});
  EXPECT_DOUBLE_EQ(simulated_seconds(program, find_dependencies(program), kRates), 5);
}

}  // namespace
}  // namespace strata::test
