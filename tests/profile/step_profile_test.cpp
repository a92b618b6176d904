// Profiles of planned steps: their figures are the plan's and the timeline's, and files made of them say so.
#include "engine/tools/profile/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/plan/program/memory.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/tools/profile/memory_view.h"
#include "engine/tools/profile/summary.h"
#include "engine/tools/profile/trace.h"
#include "tests/profile/support.h"
#include "tests/support/read_trace.h"

namespace strata {
namespace {

using test::Profiled;
using test::ReadTrace;
using ::testing::HasSubstr;

TEST(PlannedProfiles, HaveTheTimelinesSeconds) {
  const Profiled of;
  EXPECT_DOUBLE_EQ(of.profile.seconds,
                   simulated_seconds(of.plan.training.program, of.plan.training.dependencies, of.rates));
  const InstructionCosts costs(of.plan.training.program, of.rates);
  std::map<Lane, double> busy, end;
  std::size_t longer = 0;
  for (const ProfileSlice& slice : of.profile.slices) {
    const Instruction& instruction = of.profile.instruction(slice.instruction);
    const double seconds = costs.seconds_of(instruction);
    const double taken = slice.time.end - slice.time.start;
    EXPECT_GE(taken, seconds - 1e-12);  // longer if others want the same cores or memory meanwhile
    longer += taken > seconds + 1e-12 ? 1 : 0;
    busy[instruction.lane] += taken;
    EXPECT_GE(slice.time.start, end[instruction.lane]);
    end[instruction.lane] = slice.time.end;
  }
  EXPECT_EQ(end.size(), 5U);  // compute, both links, data, cpu
  EXPECT_GT(longer, 0U);
  EXPECT_LT(longer, of.profile.slices.size());
  for (const auto& [lane, seconds] : busy) EXPECT_NEAR(of.profile.busy_seconds(lane), seconds, 1e-9);
}

/// What the lane waited for has ended just when the wait does, in this round or in the one before.
TEST(PlannedProfiles, SayWhatALaneWaitedFor) {
  const Profiled of;
  std::map<std::int32_t, InstructionTime> times;
  for (const ProfileSlice& slice : of.profile.slices) times[slice.instruction] = slice.time;
  int waits = 0;
  for (const auto& [number, time] : times) {
    if (time.awaited < 0) continue;
    ++waits;
    const double end = times.at(time.awaited).end;
    EXPECT_GT(time.waited, 0);
    EXPECT_TRUE(std::abs(end - time.start) < 1e-12 || std::abs(end - of.profile.seconds - time.start) < 1e-12)
        << title_of(of.plan.training.program, of.profile.instruction(number));
  }
  EXPECT_GT(waits, 10);
}

TEST(PlannedProfiles, NeverHaveMoreAliveThanATierHolds) {
  for (const Bytes device : {64 * KiB, 96 * KiB, 192 * KiB, 4 * MiB}) {
    const Profiled of(device);
    for (const Tier tier : {Tier::device, Tier::host}) {
      const TierUse use = tier_use(of.plan.training.program, tier);
      const std::vector<MemoryReading> readings = of.profile.memory(tier);
      Bytes peak = 0;
      for (const MemoryReading& reading : readings) {
        for (const Bytes bytes : reading.by_kind) EXPECT_GE(bytes, 0);
        peak = std::max(peak, reading.bytes());
      }
      EXPECT_LE(peak, use.peak_bytes) << name_of(tier);
      EXPECT_GT(peak, use.live_bytes / 2) << name_of(tier);
      EXPECT_TRUE(std::ranges::is_sorted(readings, {}, &MemoryReading::seconds));
    }
  }
}

TEST(PlannedProfiles, OfSeveralRanksHaveOneClock) {
  const Profiled of;
  const RankProgram first = {0, &of.plan.training.program, &of.plan.training.dependencies};
  const RankProgram ranks[] = {first, {1, first.program, first.dependencies}};
  const std::vector<StepProfile> profiles = planned_profiles(ranks, of.rates);
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[1].name, "rank 1");
  for (const StepProfile& profile : profiles) {
    EXPECT_NEAR(profile.seconds, of.profile.seconds, 1e-12);
    ASSERT_EQ(profile.slices.size(), of.profile.slices.size());
    for (std::size_t s = 0; s < profile.slices.size(); ++s) {
      const InstructionTime& time = profile.slices[s].time;
      EXPECT_NEAR(time.end - time.start, of.profile.slices[s].time.end - of.profile.slices[s].time.start,
                  1e-12);
      EXPECT_EQ(time.awaited, of.profile.slices[s].time.awaited);
    }
  }
}

TEST(Summaries, HaveTheProfilesFigures) {
  const Profiled of;
  const nlohmann::json summary = summary_of(of.profile);
  EXPECT_EQ(summary["seconds"], of.profile.seconds);
  EXPECT_EQ(summary["lanes"]["compute"]["busy_seconds"], of.profile.busy_seconds(Lane::compute));
  EXPECT_EQ(summary["memory"]["device"]["peak_bytes"], of.plan.training.use[Tier::device].peak_bytes);
  EXPECT_EQ(summary["traffic"]["h2d"], of.plan.training.moved(Link::h2d));
  Bytes at_peak = 0, by_kind = 0, before = INT64_MAX;
  for (const nlohmann::json& buffer : summary["memory"]["device"]["at_peak"]) {
    const Bytes bytes = buffer["bytes"];
    at_peak += bytes;
    EXPECT_LE(bytes, std::exchange(before, bytes));
  }
  for (const nlohmann::json& bytes : summary["memory"]["device"]["by_kind"]) by_kind += bytes.get<Bytes>();
  EXPECT_EQ(at_peak, summary["memory"]["device"]["live_peak_bytes"]);
  EXPECT_EQ(by_kind, at_peak);
  EXPECT_FALSE(summary["memory"].contains("nvme"));
}

TEST(Traces, HaveASliceForEachInstructionOnItsLane) {
  const Profiled of;
  const TraceGroup group = {"planned", {&of.profile, 1}};
  const ReadTrace trace(make_trace({&group, 1}));
  std::size_t slices = 0;
  for (const auto& [track, events] : trace.slices) {
    const std::string& lane = trace.threads.at(track);
    double busy = 0;
    for (std::size_t e = 0; e < events.size(); e += 2) {
      EXPECT_TRUE(events[e].begins);
      EXPECT_FALSE(events.at(e + 1).begins);
      EXPECT_LE(events[e].nanoseconds, events[e + 1].nanoseconds);
      if (e > 0) {
        EXPECT_GE(events[e].nanoseconds, events[e - 1].nanoseconds);
      }
      busy += static_cast<double>(events[e + 1].nanoseconds - events[e].nanoseconds) * 1e-9;
    }
    slices += events.size() / 2;
    const Lane* found = std::ranges::find(kLanes, lane, [](Lane of_lane) { return name_of(of_lane); });
    ASSERT_NE(found, kLanes.end());
    EXPECT_NEAR(busy, of.profile.busy_seconds(*found), 1e-9 * static_cast<double>(events.size()));
  }
  EXPECT_EQ(slices, of.profile.slices.size());
  EXPECT_GT(trace.flows.size(), 5U);
  for (const auto& [flow, ends] : trace.flows) EXPECT_EQ(ends, 2) << flow;
}

TEST(Traces, CountTheMemoryOfEachTierAndKind) {
  const Profiled of;
  const TraceGroup group = {"planned", {&of.profile, 1}};
  const ReadTrace trace(make_trace({&group, 1}));
  const nlohmann::json memory = summary_of(of.profile)["memory"];
  int tiers = 0;
  for (const auto& [track, name] : trace.counters) {
    if (!memory.contains(name)) continue;
    ++tiers;
    EXPECT_EQ(trace.peaks.at(track), memory[name]["live_peak_bytes"]) << name;
  }
  EXPECT_EQ(tiers, 2);
}

TEST(MemoryViews, ArePicklesThatNameEachBufferOnce) {
  const Profiled of;
  const std::string view = make_memory_view(of.profile);
  EXPECT_TRUE(view.starts_with("\x80\x02"));
  EXPECT_TRUE(view.ends_with('.'));
  const std::string name = *of.plan.training.program.buffer(of.profile.lives.front().buffer).name;
  EXPECT_THAT(view, HasSubstr(name));
  EXPECT_THAT(view, HasSubstr("free_completed"));
  EXPECT_EQ(view.find("free_completed"), view.rfind("free_completed"));
}

}  // namespace
}  // namespace strata
