// Checkpoints written while training goes on: they hold what a synchronous save holds, change no bit, keep
// the plan exact, hold up only what would overwrite them, and lose nothing when the disk fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/nth.h"
#include "engine/config/run_config.h"
#include "tests/checkpoint/support.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using test::expect_the_plan_was_exact;
using test::names_in;
using test::resident_bytes;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::TemporaryFolder;
using test::tiny_run;

/// Without clipping, units on the host are updated during the backward pass, from the top, and saved in that
/// order.
struct SavedArithmetic {
  DType precision;
  bool clips;
  MasterFormat master = MasterFormat::fp32;
  MomentFormat moments = MomentFormat::fp32;
};

struct Place {
  const char* name;
  std::function<void(RunConfig&, const std::string& drive)> set;
  bool needs_drive = false;
};

void use_drive(RunConfig& config, const std::string& drive) {
  config.memory.device = std::max(smallest_bytes(config), resident_bytes(config) / 10);
  config.memory.nvme_path = {drive};
  config.memory.optimizer_state = TierChoice::nvme;
}

const std::vector<Place>& places() {
  static const std::vector<Place> all = {
      {"device", [](RunConfig&, const std::string&) {}},
      {"device_alone", [](RunConfig& config, const std::string&) { config.memory.host.reset(); }},
      {"device_and_host",
       [](RunConfig& config, const std::string&) { config.memory.device = resident_bytes(config) / 2; }},
      {"host", [](RunConfig& config, const std::string&) { config.memory.device = smallest_bytes(config); }},
      {"pinned",
       [](RunConfig& config, const std::string&) {
         config.memory.optimizer_state = TierChoice::host;
         config.memory.parameters = config.memory.gradients = config.memory.activations = TierChoice::device;
       }},
      {"nvme", use_drive, true},
      {"nvme_and_little_host",
       [](RunConfig& config, const std::string& drive) {
         use_drive(config, drive);
         config.memory.parameters = config.memory.gradients = config.memory.activations = TierChoice::nvme;
         config.memory.host = smallest_host_bytes(config);
       },
       true},
  };
  return all;
}

/// Why a test of `place` cannot run with `folder` for a drive; empty if it can.
std::string why_not(const Place& place, const TemporaryFolder& folder) {
  return place.needs_drive ? test::why_no_drive(folder.path()) : "";
}

/// What a checkpoint holds, whatever its order of tensors, and however long its run was to be.
struct Content {
  std::string state_hash;
  Progress progress;
};

/// Reads checkpoint.path/`name`, which moves into a folder of its own so that it is the newest there.
Content content_of(const RunConfig& config, const std::string& name) {
  const fs::path alone = config.checkpoint.path + "-" + name;
  fs::create_directories(alone);
  fs::rename(fs::path(config.checkpoint.path) / name, alone / name);
  const Model model = test::model_of(config);
  test::State state(model, 0);
  auto loaded = CheckpointStore(alone, 1).load_newest(model, state.access());
  if (!loaded) return {};
  loaded->progress.schedule.erase("steps");
  return {state_hash(model, state.access()), loaded->progress};
}

class Saving : public ::testing::TestWithParam<std::tuple<SavedArithmetic, Place>> {
 protected:
  /// A run that saves after steps 2, 4 and 5.
  RunConfig saving_run() const {
    RunConfig config = tiny_run(folder_.path());
    const SavedArithmetic& arithmetic = std::get<SavedArithmetic>(GetParam());
    config.train.precision = arithmetic.precision;
    config.optimizer.master = arithmetic.master;
    config.optimizer.moments = arithmetic.moments;
    if (!arithmetic.clips) config.optimizer.clip_norm = 0;
    config.train.steps = 5;
    config.checkpoint.every = 2;
    config.checkpoint.keep = 10;
    return config;
  }

  const TemporaryFolder folder_;
};

// Invariant of placement (Saving*.*): Saving beside training changes no result. Every checkpoint equals the
// one of a synchronous save after its step, on any tier. The plan stays exact.
TEST_P(Saving, GivesWhatASynchronousSaveGivesAndThePlanIsExact) {
  if (const std::string reason = why_not(std::get<Place>(GetParam()), folder_); !reason.empty())
    GTEST_SKIP() << reason;
  RunConfig config = saving_run();
  std::map<std::string, Content> expected;
  for (const std::int64_t steps : {2, 4, 5}) {
    RunConfig reference = config;
    reference.train.steps = steps;
    reference.checkpoint.every = 0;
    reference.checkpoint.path = (folder_.path() / fmt::format("reference-{}", steps)).string();
    EXPECT_EQ(run(reference, {.files = &test::quick()}).result.saves, 0);
    const std::string name = fmt::format("step-{:08}", steps);
    expected[name] = content_of(reference, name);
  }
  std::get<Place>(GetParam()).set(config, folder_.path().string());
  for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
    config.plan.lanes = lanes;
    config.checkpoint.path =
        (folder_.path() / (lanes == LaneMode::serial ? "serial" : "overlapped")).string();
    const RunOutcome outcome = run(config, {.files = &test::quick()});
    EXPECT_EQ(outcome.result.state_hash, expected["step-00000005"].state_hash);
    EXPECT_EQ(outcome.result.saves, 3);
    expect_the_plan_was_exact(outcome);
    ASSERT_EQ(names_in(config.checkpoint.path),
              (std::set<std::string>{"step-00000002", "step-00000004", "step-00000005"}));
    for (const auto& [name, content] : expected) {
      const Content found = content_of(config, name);
      EXPECT_EQ(found.state_hash, content.state_hash) << name;
      EXPECT_EQ(found.progress, content.progress) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Saving,
    ::testing::Combine(
        ::testing::Values(SavedArithmetic{DType::bf16, true}, SavedArithmetic{DType::bf16, false},
                          SavedArithmetic{DType::fp32, false}, SavedArithmetic{DType::fp16, true},
                          SavedArithmetic{DType::bf16, true, MasterFormat::split, MomentFormat::coded},
                          SavedArithmetic{DType::bf16, true, MasterFormat::none}),
        ::testing::ValuesIn(places())),
    [](const auto& info) {
      const SavedArithmetic& arithmetic = std::get<SavedArithmetic>(info.param);
      return fmt::format("{}_{}_{}_{}", name_of(arithmetic.precision),
                         nth(std::array{"whole", "small", "without_master"}, arithmetic.master),
                         arithmetic.clips ? "clipped" : "unclipped", std::get<Place>(info.param).name);
    });

TEST(SavingOnABackgroundDevice, GivesTheSameBits) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 5;
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.every = 2;
  for (const Bytes budget : {kUnlimited, resident_bytes(config) / 2}) {
    config.memory.device = budget;
    config.checkpoint.path = (folder.path() / fmt::format("out-{}", budget == kUnlimited)).string();
    test::QueuedDevice device({.threads = 2, .link = {}});
    const RunOutcome outcome = run(config, {.device = &device});
    EXPECT_EQ(outcome.result.state_hash, expected);
    expect_the_plan_was_exact(outcome);
    EXPECT_EQ(content_of(config, "step-00000005").state_hash, expected);
    config.train.steps = 7;
    const std::string continued = run(config, {.device = &device}).result.state_hash;
    config.checkpoint.path.clear();
    EXPECT_EQ(run(config, {.device = &device}).result.state_hash, continued);
    config.train.steps = 5;
  }
}

/// Lets one operation of a checkpoint wait until a step was reported.
class WaitingFileSystem : public FileSystem, public TrainListener {
 public:
  enum class At : std::uint8_t { create, sync };
  WaitingFileSystem(At at, std::string folder, std::int64_t step)
      : at_(at), folder_(std::move(folder)), step_(step) {}

  int create(const fs::path& path) override {
    if (at_ == At::create) wait(path);
    return FileSystem::create(path);
  }
  void sync(int descriptor, const fs::path& path) override {
    if (at_ == At::sync) wait(path);
    FileSystem::sync(descriptor, path);
  }
  void on_step(const StepReport& report) override {
    const std::lock_guard lock(mutex_);
    reported_ = report.step;
    changed_.notify_all();
  }
  void on_checkpoint(const std::string&) override {
    const std::lock_guard lock(mutex_);
    completed_at_.push_back(reported_);
  }
  /// The latest step that was reported when each checkpoint was complete.
  const std::vector<std::int64_t>& completed_at() const { return completed_at_; }

 private:
  void wait(const fs::path& path) {
    if (path.parent_path().filename() != folder_ + ".tmp") return;
    std::unique_lock lock(mutex_);
    // The limit only ends a test that has failed.
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return reported_ >= step_; }))
      throw IoError("the step that was waited for did not come");
  }

  At at_;
  std::string folder_;
  std::int64_t step_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t reported_ = -1;
  std::vector<std::int64_t> completed_at_;
};

class SavingBeside : public ::testing::TestWithParam<Place> {
 protected:
  /// Saves after steps 4 and 8, that is in steps 3 and 7; `wait` looks at the first of them.
  void expect_completion(WaitingFileSystem& files) {
    RunConfig config = tiny_run(folder_.path());
    config.train.steps = 8;
    GetParam().set(config, folder_.path().string());
    const std::string expected = run(config).result.state_hash;
    config.checkpoint.every = 4;
    config.checkpoint.path = (folder_.path() / "out").string();
    EXPECT_EQ(run(config, {.files = &files, .listener = &files}).result.state_hash, expected);
    EXPECT_EQ(names_in(config.checkpoint.path), (std::set<std::string>{"step-00000004", "step-00000008"}));
  }

  const TemporaryFolder folder_;
};

/// Nothing of a whole step writes what is saved before its own updates.
// Invariant of state and checkpoints (SavingBeside.*): A save delays only what would overwrite it. The next
// steps run while the disk is busy with a checkpoint.
TEST_P(SavingBeside, TheNextStepRunsUpToItsUpdates) {
  if (const std::string reason = why_not(GetParam(), folder_); !reason.empty()) GTEST_SKIP() << reason;
  WaitingFileSystem files(WaitingFileSystem::At::create, "step-00000004", 4);
  expect_completion(files);
  EXPECT_GE(files.completed_at().front(), 4);
}

TEST_P(SavingBeside, StepsRunWhileTheDiskCompletesACheckpoint) {
  if (const std::string reason = why_not(GetParam(), folder_); !reason.empty()) GTEST_SKIP() << reason;
  WaitingFileSystem files(WaitingFileSystem::At::sync, "step-00000004", 6);
  expect_completion(files);
  EXPECT_GE(files.completed_at().front(), 6);
}

INSTANTIATE_TEST_SUITE_P(, SavingBeside, ::testing::ValuesIn(places().begin(), places().end() - 1),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SavingOnDrives, TakesNoMoreThanAUnitOfHostMemoryAndReadsNothing) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  use_drive(config, folder.path().string());
  const Bytes without = smallest_host_bytes(config);
  config.checkpoint.path = "out";
  config.checkpoint.every = 1;
  config.memory.host = smallest_host_bytes(config);
  Bytes largest = 0;
  for (const Unit& unit : test::model_of(config).units) largest = std::max(largest, 4 * unit.elements);
  EXPECT_LE(*config.memory.host, without + largest);
  EXPECT_LE(test::make_plan(config, test::model_of(config)).arena_bytes(Tier::host), *config.memory.host);
  config.memory.host =
      3 * *config.memory.host;  // with the least memory no update keeps its unit until it is saved
  const Plan plan = test::make_plan(config, test::model_of(config));
  for (const Link link : kLinks) EXPECT_EQ(plan.training().moved_by_save(link), 0) << name_of(link);
}

TEST(SavingStopped, FinishesTheCheckpointOfAStepThatWasReported) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 6;
  const std::string straight = run(config).result.state_hash;
  config.checkpoint.every = 2;
  for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
    config.plan.lanes = lanes;
    config.checkpoint.path = (folder.path() / (lanes == LaneMode::serial ? "serial" : "overlapped")).string();
    std::atomic<bool> stop = false;
    test::StopAfter listener(4, stop);
    const TrainResult stopped = run(config, {.stop = &stop, .listener = &listener}).result;
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_EQ(stopped.saves, 2);
    EXPECT_EQ(names_in(config.checkpoint.path), (std::set<std::string>{"step-00000002", "step-00000004"}));
    EXPECT_EQ(run(config).result.state_hash, straight);
  }
}

/// Each file operation of a run fails in its turn.
// Invariant (SavingFaults.*): A crash loses no reported checkpoint.
TEST(SavingFaults, OfAnyOperationAreOneErrorOrAWarningAndLoseNothing) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 4;
  const std::string expected = run(config).result.state_hash;
  config.checkpoint.every = 2;
  config.checkpoint.keep = 1;
  config.checkpoint.path = (folder.path() / "out").string();
  test::FaultyFileSystem none;
  EXPECT_EQ(run(config, {.files = &none}).result.state_hash, expected);
  int unsaved = 0;
  for (int fail_at = 6; fail_at < none.operations(); fail_at += 9) {
    fs::remove_all(config.checkpoint.path);
    test::FaultyFileSystem files(fail_at);
    test::Warnings warnings;
    try {
      run(config, {.files = &files, .listener = &warnings});
      // Only an old checkpoint that cannot be removed ends no run.
      EXPECT_THAT(warnings.all(), ::testing::ElementsAre(::testing::HasSubstr(" stays"))) << fail_at;
    } catch (const IoError& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, ::testing::HasSubstr("injected failure"));
      if (text.find("was not saved") != std::string::npos) {
        ++unsaved;
        for (const std::string& name : names_in(config.checkpoint.path))
          EXPECT_THAT(name, ::testing::Not(::testing::EndsWith(".tmp"))) << fail_at;
      }
    }
    EXPECT_EQ(run(config).result.state_hash, expected) << fail_at;
  }
  EXPECT_GT(unsaved, 10);
}

}  // namespace
}  // namespace strata
