// Runs that store the optimizer's state in fewer bytes: they resume exactly, exchange checkpoints with
// others, move the bytes that their format says, and learn alike. tests/execute/invariants_test.cpp and
// nvme_test.cpp show that placement changes none of their bits.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::QueuedDevice;
using test::run;
using test::RunOutcome;
using test::TemporaryFolder;
using test::tiny_run;

struct Format {
  MasterFormat master;
  MomentFormat moments;
};
constexpr Format kPlainFormat = {MasterFormat::fp32, MomentFormat::fp32};
constexpr Format kSplitFormat = {MasterFormat::split, MomentFormat::fp32};
constexpr Format kBf16MomentsFormat = {MasterFormat::fp32, MomentFormat::bf16};
constexpr Format kNoMasterFormat = {MasterFormat::none, MomentFormat::fp32};
constexpr Format kSmallSplitFormat = {MasterFormat::split, MomentFormat::bf16};
constexpr Format kCodedMomentsFormat = {MasterFormat::fp32, MomentFormat::coded};
constexpr Format kSmallestFormat = {MasterFormat::none, MomentFormat::coded};
constexpr std::array kFormats = {kPlainFormat,      kSplitFormat,        kBf16MomentsFormat, kNoMasterFormat,
                                 kSmallSplitFormat, kCodedMomentsFormat, kSmallestFormat};

RunConfig with_format(RunConfig config, const Format& format) {
  config.optimizer.master = format.master;
  config.optimizer.moments = format.moments;
  return config;
}

// Invariant (StateFormatOfARun.*): The state's format is exact or reproducible.
TEST(StateFormatOfARun, ResumesToTheSameBitsWhetherTheHostCanAddressTheStateOrNot) {
  for (const Format& format : {kBf16MomentsFormat, kSmallSplitFormat, kCodedMomentsFormat, kSmallestFormat}) {
    const TemporaryFolder folder;
    RunConfig config = with_format(tiny_run(folder.path()), format);
    const std::string straight = run(config).result.state_hash;
    QueuedDevice device({.threads = 2, .link = {}});
    for (Device* other : {static_cast<Device*>(nullptr), static_cast<Device*>(&device)}) {
      config.checkpoint.path = (folder.path() / (other == nullptr ? "cpu" : "queued")).string();
      config.train.steps = 2;
      run(config, {.device = other});
      config.train.steps = 4;
      EXPECT_EQ(run(config, {.device = other}).result.state_hash, straight);
    }
  }
}

/// The state's hash once a run of format `to` has loaded the checkpoint of `config`'s last step.
std::string hash_when_loaded(const RunConfig& config, const Format& to) {
  const RunOutcome outcome = run(with_format(config, to));
  EXPECT_TRUE(outcome.result.steps.empty());
  return outcome.result.state_hash;
}

TEST(StateFormatOfARun, IsNoPartOfACheckpoint) {
  for (const Format& format : kFormats) {
    const TemporaryFolder folder;
    RunConfig config = with_format(tiny_run(folder.path()), format);
    config.train.steps = 3;
    config.checkpoint.path = (folder.path() / "out").string();
    const std::string saved = run(config).result.state_hash;
    for (const Format& to : kFormats) {
      const bool keeps_masters = to.master != MasterFormat::none || format.master == MasterFormat::none;
      // Each holds the numbers of those with fewer bits.
      const bool keeps_moments = to.moments <= format.moments;
      EXPECT_EQ(hash_when_loaded(config, to) == saved, keeps_masters && keeps_moments);
    }
    RunConfig further =
        with_format(config, format.master == MasterFormat::fp32 ? kSmallestFormat : kPlainFormat);
    further.train.steps = 5;
    EXPECT_EQ(run(further).result.steps.size(), 2U);
  }
}

TEST(StateFormatOfARun, MovesItsBytesPerParameterToAndFromDrives) {
  struct Case {
    Format format;
    Bytes master, moment;
  };
  for (const auto& [format, of_master, of_moment] :
       {Case{kPlainFormat, 4, 4}, Case{kSplitFormat, 2, 4}, Case{kSmallSplitFormat, 2, 2},
        Case{kNoMasterFormat, 0, 4}, Case{{MasterFormat::none, MomentFormat::bf16}, 0, 2}}) {
    const TemporaryFolder folder;
    RunConfig config = with_format(tiny_run(folder.path()), format);
    config.model.config["hidden_size"] = 64;
    config.model.config["intermediate_size"] = 256;
    config.train.steps = 2;
    config.memory.device = test::smallest_bytes(config);
    config.memory.nvme_path = {folder.path().string()};
    config.memory.optimizer_state = TierChoice::nvme;
    const RunOutcome outcome = run(config);
    expect_the_plan_was_exact(outcome);
    const Model model = test::model_of(config);
    Bytes expected = 0;
    for (const Unit& unit : model.units) {
      expected += align_up(unit.elements * of_master, kBufferAlignment) +
                  2 * align_up(unit.elements * of_moment, kBufferAlignment);
    }
    const Bytes bytes_per_parameter = of_master + 2 * of_moment;
    EXPECT_NEAR(static_cast<double>(expected), static_cast<double>(bytes_per_parameter * model.parameters()),
                0.06 * static_cast<double>(expected));
    EXPECT_EQ(outcome.plan.training().moved(Link::nvme_read), expected);
    EXPECT_EQ(outcome.plan.training().moved(Link::nvme_write), expected);
  }
}

TEST(StateFormatOfARun, ChangesLittleOfWhatItLearns) {
  const TemporaryFolder folder;
  RunConfig config = tiny_run(folder.path());
  config.train.steps = 60;
  const TrainResult plain = run(config).result;
  for (const Format& format :
       {kSplitFormat, kBf16MomentsFormat, kNoMasterFormat, kCodedMomentsFormat, kSmallestFormat}) {
    const TrainResult result = run(with_format(config, format)).result;
    double distance = 0;
    for (std::size_t step = 0; step < plain.steps.size(); ++step)
      distance += std::abs(result.steps[step].loss - plain.steps[step].loss) / 60;
    EXPECT_LT(distance, 0.05) << "on average, of losses that fall from 4.9 to 0.6";
  }
  EXPECT_LT(plain.steps.back().loss, 0.6 * plain.steps.front().loss);
}

}  // namespace
}  // namespace strata
