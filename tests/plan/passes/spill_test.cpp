// What the nvme tier must keep: the meaning of the program, whatever is spilled and however little host
// memory there is; and how little it moves.
#include <gtest/gtest.h>

#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "engine/plan/program/rounds.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::kNoLimits;
using test::run_in_order;
using test::run_in_random_order;
using test::StrategyOptions;
using test::tiny_model;
using test::tiny_strategy;
using test::with_late_updates;
using test::with_pieces;

/// The device's passes done, with little device memory.
Program on_device(const StrategyOptions& options) {
  const Program plain = lower_training(tiny_model(), tiny_strategy(tiny_model(), options));
  const Bytes budget = near_bytes(plain, kDevicePair).smallest + 16 * KiB;
  return prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
}

/// The first `part` of `parts` of what can be spilled.
Program spilled(const Program& program, std::size_t part, std::size_t parts) {
  const SpillOrder order = find_spill_order(program, {});
  return spill(program,
               {order.buffers.begin(),
                order.buffers.begin() + static_cast<std::ptrdiff_t>(order.buffers.size() * part / parts)});
}

std::vector<StrategyOptions> spilling_options() {
  std::vector<StrategyOptions> options;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const std::size_t units : {0, 2}) {
        for (const bool clips : {true, false}) options.push_back({order, precision, 3, false, units, clips});
      }
    }
  }
  return with_pieces(with_late_updates(std::move(options)));
}

// Invariant: Drives change no result.
TEST(SpillLongTest, KeepsTheMeaningWhateverIsSpilledAndHoweverLittleHostMemoryThereIs) {
  for (const StrategyOptions& options : spilling_options()) {
    const Program program = on_device(options);
    const auto expected = run_in_order(program, 3);
    for (const std::size_t part : {1, 2, 3}) {
      const Program plain = spilled(program, part, 3);
      EXPECT_EQ(run_in_order(plain, 3), expected);
      const Bytes smallest = near_bytes(plain, kHostPair).smallest;
      for (const Bytes budget : {smallest, smallest + 20 * KiB, smallest + 200 * KiB, kUnlimited}) {
        const Program resident = keep_resident(plain, kHostPair, budget);
        EXPECT_EQ(run_in_order(resident, 3), expected);
        Program placed = place(prefetch(resident, kHostPair, budget));
        EXPECT_LE(tier_use(placed, Tier::host).live_bytes, budget);
        std::uint32_t seed = 0;
        for (const PlaceOrder order : {PlaceOrder::by_size, PlaceOrder::by_end}) {
          place_tier(placed, Tier::host, order);
          verify(placed, kNoLimits);
          EXPECT_EQ(run_in_random_order(placed, 3, seed++), expected);
        }
      }
    }
  }
}

TEST(Spill, TakesTheOptimizersStateOfTheTopUnitFirstAndParametersLast) {
  const Program program = on_device({});
  const SpillOrder order = find_spill_order(program, {});
  EXPECT_EQ(order.forced, 0U);
  EXPECT_EQ(*program.buffer(order.buffers.front()).name, "head/exp_avg_sq");
  EXPECT_EQ(*program.buffer(order.buffers.back()).name, "embedding/parameter");
}

TEST(Spill, FollowsTheRunFile) {
  const Program program = on_device({});
  TierChoices wanted;
  wanted[BufferKind::gradient] = TierChoice::nvme;
  wanted[BufferKind::optimizer_state] = TierChoice::host;
  const SpillOrder order = find_spill_order(program, wanted);
  for (std::size_t i = 0; i < order.buffers.size(); ++i) {
    const BufferKind kind = program.buffer(order.buffers[i]).kind;
    EXPECT_EQ(kind == BufferKind::gradient, i < order.forced);
    EXPECT_NE(kind, BufferKind::optimizer_state);
  }
  EXPECT_GT(order.forced, 0U);
}

TEST(Spill, MovesTheStateOfTheOptimizerOnceEachWay) {
  const Program program = on_device({});
  TierChoices wanted;
  wanted[BufferKind::parameter] = wanted[BufferKind::gradient] = wanted[BufferKind::activation] =
      TierChoice::host;
  const SpillOrder order = find_spill_order(program, wanted);
  const Program plain = spill(program, order.buffers);
  Bytes state = 0;
  for (const BufferId id : order.buffers) state += program.buffer(id).bytes;
  for (const Bytes budget : {near_bytes(plain, kHostPair).smallest, kUnlimited}) {
    const Program resident = keep_resident(plain, kHostPair, budget);
    EXPECT_EQ(moved_bytes(resident, Operation::read), state);
    EXPECT_EQ(moved_bytes(resident, Operation::write), state);
  }
}

// Invariant: Late updates change no result.
TEST(Spill, TouchesNoStateBeforeTheFirstOfLateUpdates) {
  for (const StrategyOptions& options : spilling_options()) {
    if (!options.updates_late || options.units_on_device > 0) continue;
    const Program plain = spilled(on_device(options), 1, 1);
    for (const Program& program : {plain, keep_resident(plain, kHostPair, kUnlimited)}) {
      const Rounds rounds = first_rounds(program, 2);
      for (const Instruction& instruction : program.instructions) {
        if (!rounds.performs(instruction, 0)) continue;
        for_each_operand(instruction, [&](const Operand& operand, bool) {
          EXPECT_NE(program.buffer(operand.buffer).kind, BufferKind::optimizer_state)
              << print(program, instruction);
        });
      }
    }
  }
}

TEST(Pieces, CoverEachPartOnceInEqualStretches) {
  Strategy strategy;
  EXPECT_EQ(state_pieces(1000, strategy), std::vector<Piece>{{}});
  strategy.piece_bytes = 1024;  // 256 floats
  EXPECT_EQ(state_pieces(256, strategy), std::vector<Piece>{{}});
  EXPECT_EQ(state_pieces(257, strategy), (std::vector<Piece>{{0, 192}, {192, 65}}));
  for (const std::int64_t elements : {1000, 4096, 4097, 99999}) {
    std::int64_t next = 0;
    for (const Piece& piece : state_pieces(elements, strategy)) {
      EXPECT_EQ(piece.first, next);
      EXPECT_GT(piece.count, 0);
      EXPECT_LE(piece.count, 256);
      next += piece.count;
    }
    EXPECT_EQ(next, elements);
  }
}

TEST(Pieces, TogetherTakeNoMoreMemoryThanTheWhole) {
  Strategy strategy;
  strategy.piece_bytes = 32 * MiB;
  for (const std::int64_t elements :
       {std::int64_t{8} * MiB + 1, std::int64_t{40'000'007}, std::int64_t{123'456'789}}) {
    for (const Bytes element : {size_of(DType::bf16), size_of(DType::fp32)}) {
      Bytes together = 0;
      for (const Piece& piece : state_pieces(elements, strategy))
        together += align_up(piece.count * element, kBufferAlignment);
      EXPECT_EQ(together, align_up(elements * element, kBufferAlignment)) << elements;
    }
  }
}

TEST(Pieces, NeedOnlyTheirOwnRoomOnTheHost) {
  const auto largest_visit = [](Bytes piece_bytes) {
    const Program program = on_device({.piece_bytes = piece_bytes});
    TierChoices wanted;
    wanted[BufferKind::parameter] = wanted[BufferKind::gradient] = wanted[BufferKind::activation] =
        TierChoice::host;
    return near_bytes(spill(program, find_spill_order(program, wanted).buffers), kHostPair).largest_visit;
  };
  EXPECT_EQ(largest_visit(2 * KiB), 3 * kBufferAlignment);
  EXPECT_GT(largest_visit(kUnlimited), 3 * kBufferAlignment);
}

TEST(Spill, HostMemorySavesReadsOfWhatIsUsedTwice) {
  const Program program = on_device({});
  const SpillOrder order = find_spill_order(program, {});
  const Program plain = spill(program, order.buffers);
  const Bytes tight =
      moved_bytes(keep_resident(plain, kHostPair, near_bytes(plain, kHostPair).smallest), Operation::read);
  const Bytes roomy = moved_bytes(keep_resident(plain, kHostPair, kUnlimited), Operation::read);
  EXPECT_LT(roomy, tight);
}

}  // namespace
}  // namespace strata
