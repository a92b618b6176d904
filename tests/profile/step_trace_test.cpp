// The trace of chosen steps: what is in the file, whatever ends the process that writes it, and that memory
// does not grow with it.
#include "engine/tools/profile/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "engine/config/report_section.h"
#include "engine/model/model.h"
#include "engine/plan/program/memory.h"
#include "engine/plan/program/rank_tasks.h"
#include "engine/tools/profile/step_profile.h"
#include "tests/base/temporary_folder.h"
#include "tests/profile/support.h"
#include "tests/support/read_trace.h"

namespace strata {
namespace {

using test::ReadTrace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Rounds of a run as they would go on a machine of these rates, one behind another.
class StepTraces : public ::testing::Test {
 protected:
  StepTraces() {
    const RankProgram rank = {0, &plan_.training.program, &plan_.training.dependencies};
    timeline_ = simulate_round({&rank, 1}, of_.rates).front();
  }

  StepTrace::Setup setup(const std::vector<StepSpan>& steps) const {
    return {.path = path(), .steps = steps};
  }
  std::string path() const { return (folder_.path() / "new" / "trace.pftrace").string(); }

  void write_steps(const StepTrace::Setup& setup, std::int64_t first, std::int64_t count) const {
    StepTrace trace(setup);
    run(trace, first, count);
  }
  /// Gives the trace those that it wants of `count` steps from `first` on, which is 1 or more.
  void run(StepTrace& trace, std::int64_t first, std::int64_t count) const {
    const Rounds rounds = {{{.steps = {first - 1, count}}}};
    for (std::int64_t round = 0; round < count; ++round) {
      if (!trace.wants({rounds, round})) continue;
      trace.on_recorded(recorded(first - 1 + round, round), {rounds, round});
    }
  }

  RecordedStep recorded(std::int64_t step, std::int64_t round) const {
    RecordedStep recorded = {.program = &plan_.training, .round = round, .begin_of_run = kBegin};
    recorded.seconds = timeline_.seconds;
    recorded.reports.push_back({0, {.step = step, .loss = 2, .seconds = timeline_.seconds}});
    recorded.times = timeline_.instructions;
    for (InstructionTime& time : recorded.times) {
      time.start += static_cast<double>(round) * timeline_.seconds;
      time.end += static_cast<double>(round) * timeline_.seconds;
    }
    return recorded;
  }

  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }
  ReadTrace read() const { return ReadTrace(bytes()); }

  static constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;
  test::TemporaryFolder folder_;
  const test::Profiled of_;
  const ModelPlan& plan_ = of_.plan;
  RoundTimeline timeline_;
};

TEST_F(StepTraces, HaveTheChosenStepsAndNoOthers) {
  {
    StepTrace trace(setup({{2, 2}, {5, 6}}));
    run(trace, 1, 8);
  }
  const ReadTrace trace = read();
  EXPECT_THAT(trace.names_on("steps"), ElementsAre("step 2", "step 5", "step 6"));
  const auto performed = std::ranges::count_if(plan_.training.program.instructions,
                                               [](const Instruction& one) { return one.is_of_every_step(); });
  std::map<std::int64_t, std::int64_t> slices;
  for (const auto& [track, events] : trace.slices) {
    if (!trace.threads.contains(track)) continue;
    std::uint64_t before = 0;
    for (const ReadTrace::SliceEvent& event : events) {
      EXPECT_GE(event.nanoseconds, before);
      before = event.nanoseconds;
      if (event.begins) ++slices[event.numbers.at("step")];
    }
  }
  EXPECT_THAT(slices, ElementsAre(std::pair(2, performed), std::pair(5, performed), std::pair(6, performed)));
  for (const auto& [flow, ends] : trace.flows) EXPECT_EQ(ends, 2) << flow;
  EXPECT_GT(trace.flows.size(), 15U);
}

/// Rounds overlap: what lives of both at once is counted, and is never more than the tier holds.
TEST_F(StepTraces, CountMemoryAcrossStepsThatOverlap) {
  {
    StepTrace trace(setup({{1, 4}}));
    run(trace, 1, 4);
  }
  const ReadTrace trace = read();
  int tiers = 0;
  for (const auto& [track, name] : trace.counters) {
    for (const Tier tier : {Tier::device, Tier::host}) {
      if (name != name_of(tier)) continue;
      ++tiers;
      const TierUse use = tier_use(plan_.training.program, tier);
      EXPECT_LE(trace.peaks.at(track), use.peak_bytes) << name;
      EXPECT_GT(trace.peaks.at(track), use.live_bytes / 2) << name;
    }
  }
  EXPECT_EQ(tiers, 2);
}

TEST_F(StepTraces, KeepTheSameMemoryHoweverManySteps) {
  const auto bytes_after = [&](std::int64_t steps) {
    StepTrace trace(setup({{1, 10'000}}));
    run(trace, 1, steps);
    return trace.bytes();
  };
  EXPECT_EQ(bytes_after(300), bytes_after(3));
}

TEST_F(StepTraces, GoOnBehindWhatIsThere) {
  write_steps(setup({{2, 2}}), 1, 3);
  write_steps(setup({{5, 5}}), 4, 3);
  const ReadTrace trace = read();
  EXPECT_THAT(trace.names_on("steps"), ElementsAre("step 2", "step 5"));
  for (const auto& [flow, ends] : trace.flows) EXPECT_EQ(ends, 2) << flow;
}

TEST_F(StepTraces, OfAProcessThatWasKilledWhileItWroteAreReadable) {
  write_steps(setup({{1, 2}}), 1, 2);
  const std::string whole = bytes();
  for (const std::size_t lost : {std::size_t{1}, std::size_t{9}, whole.size() / 3, whole.size() - 3}) {
    std::filesystem::resize_file(path(), whole.size() - lost);
    write_steps(setup({{3, 3}}), 3, 1);
    EXPECT_THAT(read().names_on("steps"), ::testing::Contains("step 3")) << lost;
    std::ofstream(path(), std::ios::binary) << whole;
  }
}

TEST_F(StepTraces, AreNotWrittenIntoWhatIsNone) {
  std::filesystem::create_directories(folder_.path() / "new");
  for (const std::string text : {"some text\n", "\nsome text", "\n"}) {
    std::ofstream(path(), std::ios::binary) << text << std::string(100, 'x');
    EXPECT_THAT(
        [&] {
          StepTrace trace(setup({{1, 1}}));
        },
        ThrowsMessage<ConfigError>(HasSubstr("no trace of Strata's; name another file")));
    EXPECT_THAT(bytes(), HasSubstr(text + "xxx"));
  }
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(
      [&] {
        StepTrace trace(setup({{1, 1}}));
      },
      ThrowsMessage<ConfigError>(HasSubstr("report.trace.path: cannot write")));
}

TEST_F(StepTraces, ThatCannotBeWrittenAreRefusedBeforeTheRun) {
  StepTrace::Setup full = setup({{1, 3}});
  full.path = "/dev/full";
  EXPECT_THAT([&] { StepTrace trace(full); },
              ThrowsMessage<ConfigError>(HasSubstr("report.trace.path: cannot write /dev/full")));
}

}  // namespace
}  // namespace strata
