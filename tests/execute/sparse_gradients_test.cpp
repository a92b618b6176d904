// Ranks that send one another the rows of the embedding's gradient that their tokens touch train to the bits
// of those that send all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::run_ranks;
using test::RunOutcome;

struct SparseLayout {
  int stage = 3, ranks = 2, replicate = 1;
};

std::string name_of(const ::testing::TestParamInfo<SparseLayout>& info) {
  return fmt::format("stage_{}_on_{}_ranks_{}_replicas", info.param.stage, info.param.ranks,
                     info.param.replicate);
}

class SparseGradients : public ::testing::TestWithParam<SparseLayout> {
 protected:
  /// Two microbatches of 24 tokens per rank, of a vocabulary of a thousand.
  RunConfig config() const {
    RunConfig config = test::tiny_run(folder_.path());
    config.model.config["vocab_size"] = 1000;
    config.model.config["tie_word_embeddings"] = false;
    config.train.batch = 2 * GetParam().ranks;
    config.train.microbatch = 1;
    config.train.steps = 3;
    config.train.threads = 1;
    config.parallel.data = GetParam().ranks;
    config.parallel.replicate = GetParam().replicate;
    config.parallel.zero_stage = GetParam().stage;
    return config;
  }
  std::vector<RunOutcome> run(const RunConfig& config) const { return run_ranks(config, GetParam().ranks); }

  test::TemporaryFolder folder_;
};

Bytes sent(const RunOutcome& outcome) {
  const PlannedProgram& program = outcome.plan.training();
  return program.moved(Link::all_gather) + program.moved(Link::reduce_scatter) +
         program.moved(Link::all_reduce);
}

TEST_P(SparseGradients, GiveTheBitsOfWholeOnesForLess) {
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const ReduceDtype reduce : {ReduceDtype::fp32, ReduceDtype::bf16}) {
      if (reduce == ReduceDtype::bf16 && precision != DType::bf16) continue;  // no run file may say so
      SCOPED_TRACE(fmt::format("{} reduced as {}", strata::name_of(precision), word_of(reduce)));
      RunConfig config = this->config();
      config.train.precision = precision;
      config.parallel.reduce_dtype = reduce;
      const std::vector<RunOutcome> sparse = run(config);
      config.parallel.sparse_gradients = false;
      const RunOutcome whole = run(config)[0];
      EXPECT_LT(sent(sparse[0]), sent(whole));
      for (const RunOutcome& rank : sparse) {
        EXPECT_EQ(rank.result.state_hash, whole.result.state_hash);
        expect_the_plan_was_exact(rank);
      }
    }
  }
}

TEST_P(SparseGradients, GiveTheSameBitsWithTheLeastMemory) {
  RunConfig config = this->config();
  const std::string resident = run(config)[0].result.state_hash;
  config.memory.device = test::smallest_bytes(config);
  for (const RunOutcome& rank : run(config)) {
    EXPECT_EQ(rank.result.state_hash, resident);
    expect_the_plan_was_exact(rank);
  }
}

TEST_P(SparseGradients, GiveTheSameBitsWithStateOnADrive) {
  if (const std::string why = test::why_no_drive(folder_.path()); !why.empty()) GTEST_SKIP() << why;
  RunConfig config = this->config();
  const std::string resident = run(config)[0].result.state_hash;
  config.memory.device = test::smallest_bytes(config);
  config.memory.nvme_path = {folder_.path().string()};
  config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
  EXPECT_EQ(run(config)[0].result.state_hash, resident);
}

INSTANTIATE_TEST_SUITE_P(, SparseGradients,
                         ::testing::Values(SparseLayout{0, 2}, SparseLayout{0, 3}, SparseLayout{1, 3},
                                           SparseLayout{2, 2}, SparseLayout{3, 2}, SparseLayout{3, 4},
                                           SparseLayout{3, 4, 2}, SparseLayout{1, 4, 2}),
                         &name_of);

}  // namespace
}  // namespace strata
