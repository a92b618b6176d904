// A run counts on nothing that its memory held before: on tiers full of 0xFF, which are NaN in every dtype,
// it leaves the bits that it leaves on zeros.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/dirty_memory.h"
#include "engine/config/run_config.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::QueuedDevice;
using test::resident_bytes;
using test::run;
using test::run_ranks;
using test::smallest_bytes;
using test::TemporaryFolder;
using test::tiny_run;

class RunsOnDirtyMemory : public ::testing::Test {
 protected:
  RunsOnDirtyMemory() : config_(tiny_run(folder_.path())) {
    config_.train.steps = 2;
    config_.train.validate_every = 1;
    config_.train.validation_batches = 1;
  }

  static std::string state_hash(const RunConfig& config, bool dirty) {
    const DirtyMemory memory(dirty);
    QueuedDevice device({.threads = 2, .link = {}});  // the host cannot write its memory
    std::string hash = run(config, {.device = &device}).result.state_hash;
    EXPECT_EQ(run(config).result.state_hash, hash) << "dirty: " << dirty;
    return hash;
  }
  void expect_no_difference(const std::string& what) {
    EXPECT_EQ(state_hash(config_, true), state_hash(config_, false)) << what;
  }

  const TemporaryFolder folder_;
  RunConfig config_;
};

// Invariant of placement (RunsOnDirtyMemory.*): Memory may hold anything. A run on tiers full of NaN leaves
// the bits of a run on zeros. All tests run on such memory.
TEST_F(RunsOnDirtyMemory, LeaveTheSameBitsWhereverTheStateLives) {
  const Bytes resident = resident_bytes(config_), smallest = smallest_bytes(config_);
  for (const Bytes budget : {kUnlimited, std::max(smallest, resident / 2), smallest}) {
    config_.memory.device = budget;
    expect_no_difference(fmt::format("budget {}", budget));
  }
}

TEST_F(RunsOnDirtyMemory, LeaveTheSameBitsInEveryFormatOfTheState) {
  struct Formats {
    DType precision;
    MasterFormat master = MasterFormat::fp32;
    MomentFormat moments = MomentFormat::fp32;
  };
  for (const auto& [precision, master, moments] :
       {Formats{DType::fp32}, Formats{DType::fp16},
        Formats{DType::bf16, MasterFormat::split, MomentFormat::bf16},
        Formats{DType::bf16, MasterFormat::none, MomentFormat::coded}}) {
    config_.train.precision = precision;
    config_.optimizer.master = master;
    config_.optimizer.moments = moments;
    expect_no_difference(std::string(name_of(precision)));
  }
}

TEST_F(RunsOnDirtyMemory, LeaveTheSameBitsOnDrives) {
  if (const std::string reason = test::why_no_drive(folder_.path()); !reason.empty()) GTEST_SKIP() << reason;
  config_.memory.device = std::max(smallest_bytes(config_), resident_bytes(config_) / 10);
  config_.memory.host = 1;
  config_.memory.nvme_path = {folder_.path().string()};
  config_.memory.host = test::smallest_host_bytes(config_);
  for (const bool verify : {false, true}) {
    config_.memory.nvme_verify = verify;
    expect_no_difference(verify ? "with checksums" : "without checksums");
  }
}

TEST_F(RunsOnDirtyMemory, LeaveTheSameBitsOnRanks) {
  for (const int stage : {1, 3}) {
    config_.parallel.zero_stage = stage;
    const auto hash = [&](bool dirty) {
      const DirtyMemory memory(dirty);
      return run_ranks(config_, 3)[0].result.state_hash;
    };
    EXPECT_EQ(hash(true), hash(false)) << "stage " << stage;
  }
}

}  // namespace
}  // namespace strata
