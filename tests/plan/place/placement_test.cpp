// How many units keep their state on the device if ranks gather their parameters: fewer, so that all stay
// gathered, or more, if the host has no room for the others.
#include "engine/plan/place/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/place/step_cost.h"
#include "engine/plan/program/memory.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using test::tiny_strategy;

/// A step is as long as its transfers are.
const MachineRates kSlowLink = {.flops_per_second = 1e15,
                                .memory_bytes_per_second = 1e15,
                                .h2d_bytes_per_second = 1e6,
                                .d2h_bytes_per_second = 1e6,
                                .nvme_read_bytes_per_second = 1e5,
                                .nvme_write_bytes_per_second = 1e5};

/// Ranks whose device has room for the state of more units than stay gathered beside it, and a step is
/// shorter with the fewer ones.
struct GatheringRun {
  Model model;
  Strategy strategy;
  RunConfig config;
  LargestNumbers units;

  std::optional<Placement> find(PlacementSearch& search, Bytes host, Shortage& shortage) const {
    MemoryRequest memory = memory_request(config.memory);
    memory.host = host;
    return search.find(memory, shortage);
  }
};

std::vector<GatheringRun> gathering_runs() {
  std::vector<GatheringRun> result;
  for (const bool tied : {true, false}) {
    for (const Order order : {Order::layer_major, Order::microbatch_major}) {
      GatheringRun run{tiny_model(8, tied), {}, tiny_config({.order = order}), {}};
      run.strategy = tiny_strategy(run.model, {.order = order, .mesh = {.shard = 2}});
      const auto plain = [&](std::size_t units) {
        return lower_training(run.model, with_device_state(run.strategy, units));
      };
      for (Bytes device = 10 * KiB; device <= 300 * KiB; device += 10 * KiB) {
        run.config.memory.device = device;
        run.units = largest_with_room(run.model.units.size(), device, plain);
        const auto seconds = [&](std::size_t units) {
          return step_cost(plain(units), device, kSlowLink).value().seconds;
        };
        const auto [more, fewer] = run.units;
        if (fewer < more && seconds(fewer) < seconds(more)) result.push_back(run);
      }
    }
  }
  EXPECT_GT(result.size(), 10U);
  return result;
}

std::size_t units_on_device(const Placement& placement) {
  return static_cast<std::size_t>(std::ranges::count(placement.strategy.state, Tier::device));
}

/// With a page less of the host there is no room for it, wherever its values are.
Bytes host_bytes(const Placement& placement) {
  return tier_use(placement.training, Tier::host).live_bytes;
}

TEST(PlacementSearch, LeavesTheDevicesRoomToWhatIsGatheredUntilTheHostIsFull) {
  for (const GatheringRun& run : gathering_runs()) {
    PlacementSearch search(run.model, run.strategy, kSlowLink);
    Shortage shortage;
    const std::optional<Placement> roomy = run.find(search, kUnlimited, shortage);
    ASSERT_TRUE(roomy);
    EXPECT_EQ(units_on_device(*roomy), run.units.gathering_nothing);
    const std::optional<Placement> tight = run.find(search, host_bytes(*roomy) - kBufferAlignment, shortage);
    ASSERT_TRUE(tight);
    EXPECT_EQ(units_on_device(*tight), run.units.copying_nothing);
  }
}

TEST(PlacementSearch, SendsNoStateToSlowDrivesThatTheDeviceHasRoomFor) {
  for (GatheringRun run : gathering_runs()) {
    Shortage shortage;
    PlacementSearch alone(run.model, run.strategy, kSlowLink);
    const Bytes host = host_bytes(run.find(alone, kUnlimited, shortage).value()) - kBufferAlignment;
    const std::optional<Placement> without_drives = run.find(alone, host, shortage);
    ASSERT_TRUE(without_drives);
    run.config.memory.nvme_path = {"/drive"};
    run.config.memory.nvme_size = kUnlimited;
    PlacementSearch beside_drives(run.model, run.strategy, kSlowLink);
    const std::optional<Placement> with_drives = run.find(beside_drives, host, shortage);
    ASSERT_TRUE(with_drives);
    EXPECT_LE(placed_cost(with_drives->training, kSlowLink).seconds,
              placed_cost(without_drives->training, kSlowLink).seconds);
  }
}

TEST(PlacementSearchLongTest, KeepsMoreUnitsOnTheDeviceThanAreCheapIfTheHostIsSmallerAndNamesTheSmallest) {
  std::size_t beyond_cheap = 0;
  for (const GatheringRun& run : gathering_runs()) {
    PlacementSearch search(run.model, run.strategy, kSlowLink);
    Shortage shortage;
    std::optional<Placement> found = run.find(search, kUnlimited, shortage);
    for (std::optional<std::size_t> before; found;) {
      const std::size_t units = units_on_device(*found);
      EXPECT_GT(units, before);
      before = units;
      beyond_cheap += units > run.units.copying_nothing ? 1 : 0;
      shortage = {};
      found = run.find(search, host_bytes(*found) - kBufferAlignment, shortage);
    }
    const Bytes least = shortage.host;
    EXPECT_TRUE(run.find(search, least, shortage));
    EXPECT_FALSE(run.find(search, least - kBufferAlignment, shortage));
  }
  EXPECT_GT(beyond_cheap, 10U);
}

}  // namespace
}  // namespace strata
