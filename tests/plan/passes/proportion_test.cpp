// What planning computes in one sweep is what the slow way gives: making the programs and looking at them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/passes/live_bytes.h"
#include "engine/plan/passes/prefetch.h"
#include "engine/plan/passes/residency.h"
#include "engine/plan/passes/spill.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/program/memory.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::StrategyOptions;
using test::tiny_model;
using test::tiny_strategy;

std::vector<Program> plain_programs() {
  std::vector<Program> programs;
  for (const Order order : {Order::layer_major, Order::microbatch_major}) {
    for (const bool save : {true, false}) {
      for (const int ranks : {1, 2}) {
        for (const std::size_t units : {std::size_t{0}, std::size_t{2}}) {
          const Model model = tiny_model(4, save);
          for (const bool late : {false, true})
            programs.push_back(lower_training(model, tiny_strategy(model, {.order = order,
                                                                           .microbatches = 5,
                                                                           .save = save,
                                                                           .units_on_device = units,
                                                                           .saves = !save,
                                                                           .mesh = {.shard = ranks},
                                                                           .updates_late = late})));
        }
      }
    }
  }
  return programs;
}

std::vector<Bytes> budgets_of(const Program& plain) {
  const Bytes smallest = near_bytes(plain, kDevicePair).smallest;
  return {smallest, smallest + 8 * KiB, 2 * smallest, 4 * smallest, kUnlimited};
}

TEST(Residency, SaysWhatItsProgramMovesAndHolds) {
  for (const Program& plain : plain_programs()) {
    Residency residency(plain, kDevicePair);
    for (const Bytes budget : budgets_of(plain)) {
      const ResidentBytes said = residency.bytes(budget);
      const Program program = keep_resident(plain, kDevicePair, budget);
      EXPECT_EQ(said.fetched, moved_bytes(program, Operation::copy_to_device));
      EXPECT_EQ(said.written_back, moved_bytes(program, Operation::copy_to_host));
      const Traffic traffic = traffic_of(program, When::every_step);
      EXPECT_EQ(said.sent(),
                traffic[Link::all_gather] + traffic[Link::reduce_scatter] + traffic[Link::all_reduce]);
      EXPECT_EQ(said.live, tier_use(program, Tier::device).live_bytes);
    }
  }
}

TEST(Residency, GivesTheSameProgramWhateverItWasAskedBefore) {
  const Program plain = plain_programs().front();
  Residency residency(plain, kDevicePair);
  for (const Bytes budget : budgets_of(plain)) {
    EXPECT_EQ(residency.run(budget), keep_resident(plain, kDevicePair, budget));
    EXPECT_EQ(residency.run(kUnlimited), keep_resident(plain, kDevicePair, kUnlimited));
  }
}

TEST(HostNeedsLongTest, AreThoseOfTheSpilledProgram) {
  for (const Program& plain : plain_programs()) {
    for (const Bytes budget : budgets_of(plain)) {
      const Program program = prefetch(keep_resident(plain, kDevicePair, budget), kDevicePair, budget);
      const std::vector<BufferId> order = find_spill_order(program, {}).buffers;
      const HostNeeds needs(program, order);
      for (std::size_t count = 0; count <= order.size(); ++count) {
        const std::vector<BufferId> spilled(order.begin(),
                                            order.begin() + static_cast<std::ptrdiff_t>(count));
        const NearBytes made = near_bytes(spill(program, spilled), kHostPair);
        ASSERT_EQ(needs.with_spilled(count).smallest, made.smallest) << count;
        ASSERT_EQ(needs.with_spilled(count).largest_visit, made.largest_visit) << count;
      }
    }
  }
}

/// A tier's places do not depend on what is done to the tiers beyond it.
TEST(Spill, LeavesThePlacesOnTheDeviceAsTheyAre) {
  for (const Program& plain : plain_programs()) {
    Program program = keep_resident(plain, kDevicePair, kUnlimited);
    place_tier(program, Tier::device);
    const Program spilled = spill(program, find_spill_order(program, {}).buffers);
    const Bytes smallest = near_bytes(spilled, kHostPair).smallest;
    const Program kept = prefetch(keep_resident(spilled, kHostPair, 2 * smallest), kHostPair, 2 * smallest);
    Program again = kept;
    place_tier(again, Tier::device);
    EXPECT_EQ(kept, again);
  }
}

TEST(LiveBytes, AreFoundAsBySearching) {
  std::mt19937 random(3);
  for (const std::size_t size : {1, 2, 7, 64, 100}) {
    std::vector<Bytes> values(size);
    for (Bytes& value : values) value = static_cast<Bytes>(random() % 100);
    LiveBytes live(values);
    for (int round = 0; round < 200; ++round) {
      const std::size_t a = random() % (size + 1), b = random() % (size + 1);
      const auto limit = static_cast<Bytes>(random() % 400) - 20;
      std::size_t found = std::max(a, b);
      while (found > 0 && values[found - 1] <= limit) --found;
      ASSERT_EQ(live.behind_latest_above(std::max(a, b), limit), found);
      const auto bytes = static_cast<Bytes>(random() % 5);
      live.add(std::min(a, b), std::max(a, b), bytes);
      for (std::size_t i = std::min(a, b); i < std::max(a, b); ++i) values[i] += bytes;
    }
  }
}

TEST(FirstNumber, IsTheSameWhereverTheSearchBegins) {
  for (std::size_t low = 0; low < 12; ++low) {
    for (std::size_t high = low; high < 40; ++high) {
      for (std::size_t first = low; first <= high; ++first) {
        const auto holds = [&](std::size_t number) {
          EXPECT_TRUE(low <= number && number < high);
          return number >= first;
        };
        ASSERT_EQ(first_number(low, high, holds), first);
        ASSERT_EQ(first_number_from_ends(low, high, holds), first);
        ASSERT_EQ(first_number_near_low(low, high, holds), first);
      }
    }
  }
}

}  // namespace
}  // namespace strata
