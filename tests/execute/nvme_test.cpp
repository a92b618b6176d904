// The nvme tier in whole runs: it changes no bit, the plan of it is exact, and what goes wrong on a drive is
// one clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "offload/io_faults.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::named_budget;
using test::resident_bytes;
using test::run;
using test::RunOutcome;
using test::smallest_bytes;
using test::smallest_host_bytes;
using test::TemporaryFolder;
using test::tiny_run;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// With a part of the state on the device, a part on the host and the rest on `folders`.
RunConfig spilling_run(const std::vector<std::string>& folders, const RunConfig& resident) {
  RunConfig config = resident;
  config.memory.device = std::max(smallest_bytes(config), resident_bytes(config) / 10);
  config.memory.host = 1;
  config.memory.nvme_path = folders;
  return config;
}

struct Drives {
  NvmeEngine engine;
  std::size_t folders;
};

class Nvme : public ::testing::TestWithParam<Drives> {
 protected:
  void SetUp() override {
    const bool uring = GetParam().engine == NvmeEngine::io_uring;
    const StoreEngine engine = uring ? StoreEngine::io_uring : StoreEngine::threads;
    if (const std::string reason = test::why_no_drive(first_.path(), engine); !reason.empty())
      GTEST_SKIP() << reason;
  }
  std::vector<std::string> folders() const {
    std::vector<std::string> result = {first_.path().string()};
    if (GetParam().folders > 1) result.push_back(second_.path().string());
    return result;
  }

  const TemporaryFolder first_, second_;
};

// Invariant of placement (Nvme.*): Drives change no result. Any part of the state may live on drives, in one
// folder or two, through io_uring or threads. The bits stay the same.
TEST_P(Nvme, PlacementChangesNoBitAndThePlanIsExact) {
  struct Formats {
    DType precision;
    MasterFormat master = MasterFormat::fp32;
    MomentFormat moments = MomentFormat::fp32;
  };
  for (const Formats& formats : {Formats{DType::bf16}, Formats{DType::fp32}, Formats{DType::fp16},
                                 Formats{DType::bf16, MasterFormat::split, MomentFormat::bf16},
                                 Formats{DType::bf16, MasterFormat::none, MomentFormat::coded}}) {
    RunConfig config = tiny_run(first_.path());
    config.train.precision = formats.precision;
    config.optimizer.master = formats.master;
    config.optimizer.moments = formats.moments;
    config.train.validate_every = 2;
    config.train.validation_batches = 2;
    const std::string expected = run(config).result.state_hash;

    config = spilling_run(folders(), config);
    config.memory.nvme_engine = GetParam().engine;
    config.memory.nvme_verify = formats.precision == DType::fp32;
    const Bytes smallest = smallest_host_bytes(config);
    const auto expect_equal = [&](const char* what) {
      for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
        config.plan.lanes = lanes;
        const RunOutcome outcome = run(config);
        EXPECT_EQ(outcome.result.state_hash, expected) << what << ", " << name_of(formats.precision);
        EXPECT_GT(outcome.plan.training().moved(Link::nvme_read), 0) << what;
        EXPECT_LE(outcome.plan.arena_bytes(Tier::host), *config.memory.host);
        expect_the_plan_was_exact(outcome);
      }
    };
    config.memory.host = smallest;
    expect_equal("the least host memory");
    config.memory.host = 2 * smallest;
    expect_equal("twice that");
    config.memory.host = kUnlimited;
    config.memory.optimizer_state = TierChoice::nvme;
    expect_equal("the optimizer's state on drives");
    config.memory.parameters = config.memory.gradients = config.memory.activations = TierChoice::nvme;
    expect_equal("everything on drives");
  }
}

TEST_P(Nvme, ACheckpointContinuesToTheSameBits) {
  RunConfig config = tiny_run(first_.path());
  const std::string expected = run(config).result.state_hash;
  config = spilling_run(folders(), config);
  config.memory.nvme_engine = GetParam().engine;
  config.memory.host = smallest_host_bytes(config);
  config.checkpoint.path = (second_.path() / "checkpoints").string();
  std::atomic<bool> stop = false;
  test::StopAfter listener(2, stop);
  EXPECT_TRUE(run(config, {.stop = &stop, .listener = &listener}).result.interrupted);
  EXPECT_EQ(run(config).result.state_hash, expected);
}

INSTANTIATE_TEST_SUITE_P(Drives, Nvme,
                         ::testing::Values(Drives{NvmeEngine::io_uring, 1}, Drives{NvmeEngine::io_uring, 2},
                                           Drives{NvmeEngine::threads, 1}, Drives{NvmeEngine::threads, 2}),
                         [](const auto& info) {
                           return std::string(info.param.engine == NvmeEngine::io_uring ? "io_uring"
                                                                                        : "threads") +
                                  (info.param.folders == 1 ? "_one_folder" : "_two_folders");
                         });

/// Gives one operation of a run a fault. A bit flipped by a write is wrong in whatever reads it, until it is
/// written again: for serial lanes and one folder only.
class OneFault : public IoFaults {
 public:
  OneFault(std::int64_t index, BlockFault fault) : index_(index), fault_(fault) {}
  BlockFault before(const BlockAttempt& attempt) override {
    const bool is_mine = count_++ == index_;
    if (fault_.flipped_bit < 0) return is_mine ? injected(fault_) : BlockFault{};
    if (attempt.write) {
      if (is_mine) wrong_bit_ = 8 * attempt.offset + fault_.flipped_bit;
      if (!is_mine && covers(attempt)) wrong_bit_ = -1;
      return {};
    }
    if (is_mine) return injected(fault_);
    return covers(attempt) ? injected({.flipped_bit = wrong_bit_ - 8 * attempt.offset}) : BlockFault{};
  }
  /// Something was done to the run, or to what it read.
  bool hit() const { return hit_; }
  std::int64_t count() const { return count_; }

 private:
  BlockFault injected(const BlockFault& fault) {
    hit_ = true;
    return fault;
  }
  bool covers(const BlockAttempt& attempt) const {
    const Bytes byte = wrong_bit_ / 8;
    return wrong_bit_ >= 0 && attempt.offset <= byte && byte < attempt.offset + attempt.length;
  }

  std::int64_t index_;
  BlockFault fault_;
  Bytes wrong_bit_ = -1;  ///< in the file
  std::atomic<std::int64_t> count_ = 0;
  std::atomic<bool> hit_ = false;
};

/// Operations of a short run fail in their turn: the run gives the same bits or one clear error, and the
/// checkpoint that it had saved before continues to the same bits. Every thirteenth here;
/// tests/faults/every_operation.sh takes all, of more steps.
// Invariant of failures (NvmeFaults.*): A failing drive loses nothing. Strata retries a failed operation to
// the same bits, or ends the run with one sentence. The last checkpoint then resumes to the same bits.
TEST(NvmeFaults, OfAnyOperationLoseNothing) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  const bool all = std::getenv("STRATA_TEST_EVERY_FAULT") != nullptr;
  RunConfig resident = tiny_run(folder.path());
  resident.train.steps = all ? 5 : 2;
  const std::string expected = run(resident).result.state_hash;
  RunConfig config = spilling_run({folder.path().string()}, resident);
  config.memory.optimizer_state = TierChoice::nvme;
  config.memory.nvme_verify = true;
  config.memory.host = 2 * smallest_host_bytes(config);
  config.plan.lanes = LaneMode::serial;
  OneFault none(-1, {});
  EXPECT_EQ(run(config, {.faults = &none}).result.state_hash, expected);
  config.checkpoint.path = (folder.path() / "checkpoints").string();
  config.checkpoint.every = 1;
  std::int64_t failed = 0, untouched = 0;
  for (std::int64_t index = 0; index < none.count(); index += all ? 1 : 13) {
    for (const BlockFault& fault : {BlockFault{.error = EIO}, BlockFault{.error = ENOSPC},
                                    BlockFault{.limit = 512}, BlockFault{.flipped_bit = 77}}) {
      OneFault faults(index, fault);
      std::filesystem::remove_all(config.checkpoint.path);
      try {
        EXPECT_EQ(run(config, {.faults = &faults}).result.state_hash, expected);
        EXPECT_TRUE(!faults.hit() || fault.limit != BlockFault::kAll) << "a fault was swallowed at " << index;
        if (!faults.hit()) ++untouched;
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
        ++failed;
      }
      EXPECT_EQ(run(config).result.state_hash, expected);
    }
  }
  EXPECT_GT(failed, 0);
  RecordProperty("operations", std::to_string(none.count()));
  RecordProperty("failed_runs", std::to_string(failed));
  RecordProperty("wrong_bits_never_read", std::to_string(untouched));
}

TEST(NvmeFaults, NameTheInstructionsFileOffsetLengthAndReason) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig config = spilling_run({folder.path().string()}, tiny_run(folder.path()));
  config.memory.host = smallest_host_bytes(config);
  OneFault faults(200, {.error = EIO});  // behind those that write the initial state
  try {
    run(config, {.faults = &faults});
    FAIL() << "the error was lost";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("Input/output error"),
                                    HasSubstr("; it is "), HasSubstr("offset")));
  }
}

TEST(NvmeBudget, ThatIsTooSmallIsNamedWithWhatIsNeeded) {
  const TemporaryFolder folder;
  RunConfig config = spilling_run({folder.path().string()}, tiny_run(folder.path()));
  config.memory.host = smallest_host_bytes(config);
  config.memory.nvme_size = 4096;
  try {
    test::make_plan(config, test::model_of(config));
    FAIL() << "4 KiB were enough";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory.nvme.size: 4.00 KiB is too small: this run keeps"));
  }
}

/// All tiers are as good as full of state, and one more layer has no room.
TEST(NvmeBudget, IsFilledTogetherWithTheOthersByTheLargestModel) {
  const TemporaryFolder folder;
  if (const std::string reason = test::why_no_drive(folder.path()); !reason.empty()) GTEST_SKIP() << reason;
  RunConfig config = tiny_run(folder.path());
  config.model.config["num_hidden_layers"] = 80;
  config.model.config["hidden_size"] = 64;
  config.model.config["num_key_value_heads"] = 4;
  config.model.config["intermediate_size"] = 202;  // no padding in a unit's flat parameter
  config.data.sequence_length = 8;
  config.train.steps = 2;
  config.train.batch = 2;
  config.train.microbatch = 1;
  config.optimizer.clip_norm = 0;  // so that gradients are short-lived
  const std::string expected = run(config).result.state_hash;
  config.memory.device = config.memory.host.emplace(10 * MiB);
  config.memory.nvme_path = {folder.path().string()};
  config.memory.nvme_size = kBufferAlignment;
  config.memory.nvme_size = named_budget(config);
  const RunOutcome outcome = run(config);
  EXPECT_EQ(outcome.result.state_hash, expected);
  expect_the_plan_was_exact(outcome);
  const auto state = static_cast<double>(14 * outcome.plan.only().parameters);
  EXPECT_GE(state,
            0.95 * static_cast<double>(config.memory.device + *config.memory.host + config.memory.nvme_size));
  config.model.config["num_hidden_layers"] = 81;
  EXPECT_THROW(test::make_plan(config, test::model_of(config)), ConfigError);
}

}  // namespace
}  // namespace strata
