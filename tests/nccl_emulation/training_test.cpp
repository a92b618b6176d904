// Ranks whose device orders what they exchange train to the bits of those whose host does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/error.h"
#include "collectives/nccl_communicator.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "tests/cuda_emulation/stream.h"
#include "tests/execute/support.h"
#include "tests/support/queued_device.h"

namespace strata::test {
namespace {

struct StreamOfDevice final : CUstream_st {
  StreamOfDevice(Stream& stream, const std::shared_ptr<OneExchangeAtATime>& of_device) : stream(stream) {
    exchanges = of_device;
  }
  void add(std::function<void()> work) override { add_work(stream, std::move(work)); }
  Stream& stream;
};

/// A rank's device in the background, which exchanges values through NCCL.
class ExchangingDevice {
 public:
  RunOptions options() {
    return {.device = &device_,
            .watchdog_seconds = 60,
            .make_device_group = [this](auto on_host, Stream& stream) {
              CUstream_st& comm = streams_.emplace_back(stream, exchanges_);
              return make_nccl_communicator(std::move(on_host), {.stream = &comm});
            }};
  }

 private:
  QueuedDevice device_{{.threads = 1, .link = {}}};
  std::shared_ptr<OneExchangeAtATime> exchanges_ = std::make_shared<OneExchangeAtATime>();
  std::deque<StreamOfDevice> streams_;
};

class ExchangingRanks : public ::testing::Test {
 protected:
  RunConfig config(int stage, int ranks, int replicate = 1) const {
    RunConfig config = tiny_run(folder_.path());
    config.train.batch = 12;
    config.train.microbatch = 1;
    config.parallel.data = ranks;
    config.parallel.replicate = replicate;
    config.parallel.zero_stage = stage;
    return config;
  }

  static std::vector<RunOutcome> run_on_devices(const RunConfig& config,
                                                TrainListener* last_ranks = nullptr) {
    std::deque<ExchangingDevice> devices(static_cast<std::size_t>(config.ranks()));
    return run_ranks(config, config.ranks(), [&](int rank) {
      RunOptions options = devices[static_cast<std::size_t>(rank)].options();
      if (rank + 1 == config.ranks()) options.listener = last_ranks;
      return options;
    });
  }

  static void expect_the_bits_of_the_host(const RunConfig& config) {
    const std::vector<RunOutcome> expected = run_ranks(config, config.ranks());
    for (const RunOutcome& rank : run_on_devices(config)) {
      EXPECT_EQ(rank.result.state_hash, expected[0].result.state_hash);
      expect_the_plan_was_exact(rank);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(ExchangingRanks, HaveTheBitsOfTheHostInEveryStageAndPlacement) {
  for (const int stage : {0, 1, 2, 3}) {
    for (const int ranks : {2, 3}) {
      RunConfig config = this->config(stage, ranks);
      for (const bool spilled : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "stage " << stage << ", ranks " << ranks << ", spilled " << spilled);
        if (spilled) config.memory.device = smallest_bytes(config);
        expect_the_bits_of_the_host(config);
      }
    }
  }
}

TEST_F(ExchangingRanks, HaveTheBitsOfTheHostAsReplicasInSerialLanesAndWithRowsOfGradients) {
  expect_the_bits_of_the_host(config(3, 4, 2));
  RunConfig serial = config(3, 2);
  serial.plan.lanes = LaneMode::serial;
  expect_the_bits_of_the_host(serial);
  RunConfig rows = config(3, 2);
  rows.model.config["tie_word_embeddings"] = false;
  rows.model.config["vocab_size"] = 1000;
  const std::string hash = run_on_devices(rows)[0].result.state_hash;
  expect_the_bits_of_the_host(rows);
  rows.parallel.sparse_gradients = false;
  EXPECT_EQ(run_on_devices(rows)[0].result.state_hash, hash);
}

/// Groups of several kinds work at once, each in a stream of its own: the ranks' programs issue their
/// exchanges in orders that fit, since these GPUs do one at a time.
TEST_F(ExchangingRanks, HaveTheBitsOfTheHostInThreeDimensionsAndLongSequences) {
  for (const char* layout :
       {"data: 2, tensor: 2", "data: 2, pipeline: 2", "tensor: 2, pipeline: 2, schedule: zero_bubble",
        "data: 2, tensor: 2, pipeline: 2", "data: 2, tensor: 2, pipeline: 2, sequence: true, zero_stage: 1",
        "context: 2, tensor: 2, pipeline: 2, schedule: gpipe", "data: 2, context: 2, zero_stage: 2",
        "data: 2, pipeline: 4, schedule: breadth_first, chunks: 2",
        "pipeline: 4, schedule: interleaved, chunks: 2", "data: 2, pipeline: 3, schedule: pipedream_2bw",
        "data: 2, pipeline: 2, schedule: pipedream"}) {
    SCOPED_TRACE(layout);
    RunConfig config = this->config(3, 1);
    config.model.config["num_hidden_layers"] = 6;
    config.train.steps = 2;
    config.parallel =
        parse_run_config(std::string("model: {path: m}\ndata: {path: d}\nparallel: {") + layout + "}\n",
                         layout)
            .parallel;
    const bool is_asynchronous = strata::is_asynchronous(config.parallel.schedule);
    config.model.config["tie_word_embeddings"] = !is_asynchronous;
    if (is_asynchronous) config.optimizer.clip_norm = 0;
    for (const bool spilled : {false, true}) {
      if (spilled) config.memory.device = smallest_bytes(config);
      expect_the_bits_of_the_host(config);
    }
  }
}

TEST_F(ExchangingRanks, EndTogetherWhereOneFails) {
  class Fails : public TrainListener {
   public:
    void on_step(const StepReport& report) override {
      if (report.step == 1) throw IoError("this rank has no more paper");
    }
  } fails;
  EXPECT_THAT([&] { run_on_devices(config(3, 3), &fails); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no more paper")));
}

}  // namespace
}  // namespace strata::test
