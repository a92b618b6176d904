// The real program on eight processes that share data, sequences, layers and stages.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "tests/cli/workspace.h"
#include "tests/support/drive.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

struct Sample {
  std::string model;
  Arguments layout;
};

class LayoutsProcessTest : public Workspace, public ::testing::WithParamInterface<Sample> {
 protected:
  static constexpr int kRanks = 8;

  /// Ten steps of six layers, in a run file with the model's name.
  Arguments run(const std::string& model, const Arguments& overrides) const {
    const std::string common = "num_hidden_layers: 6, hidden_size: 32, num_attention_heads: 8, head_dim: 8, ";
    const std::map<std::string, std::string> configs = {
        {"llama", common + "num_key_value_heads: 4, intermediate_size: 48"},
        {"gpt2", "n_layer: 6, n_embd: 32, n_head: 4, n_positions: 32, tie_word_embeddings: true"},
        {"qwen3_moe",
         common + "num_key_value_heads: 4, intermediate_size: 48, num_experts: 4, num_experts_per_tok: 2, "
                  "moe_intermediate_size: 16, mlp_only_layers: [1]"}};
    write(model + ".yaml",
          fmt::format("model: {{architecture: {}, config: {{vocab_size: 256, {}}}}}\n"
                      "data: {{path: corpus.txt, sequence_length: 24}}\n"
                      "train: {{steps: 10, batch: 8, microbatch: 1, seed: 3, precision: fp32, threads: 1}}\n"
                      "optimizer: {{lr: 1e-2}}\n"
                      "memory: {{host: 64MiB}}\n"
                      "checkpoint: {{path: none}}\n",
                      model, configs.at(model)));
    return train(model + ".yaml", overrides);
  }
  nlohmann::json report_of_ranks(Arguments arguments) const {
    arguments.insert(arguments.end(), {"--json", "report.json"});
    const Outcome outcome = strata_on_ranks(kRanks, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(std::ifstream(path("report.json")));
  }
  /// `found` from step `first` on.
  static void expect_losses(const nlohmann::json& found, const nlohmann::json& expected, std::size_t first) {
    ASSERT_LE(first + found["loss"].size(), expected["loss"].size());
    for (std::size_t step = 0; step < found["loss"].size(); ++step) {
      const double loss = expected["loss"][first + step];
      EXPECT_NEAR(found["loss"][step].get<double>(), loss, 1e-5 * loss) << first + step;
    }
  }
};

// Invariant (LayoutsProcessTest.*): Choices combine.
TEST_P(LayoutsProcessTest, TrainAsOneProcessDoes) {
  if (const std::string reason = why_no_drive(path("")); !reason.empty()) GTEST_SKIP() << reason;
  const nlohmann::json several = report_of_ranks(run(GetParam().model, GetParam().layout));
  ASSERT_EQ(several["loss"].size(), 10U);
  expect_losses(several, report(run(GetParam().model, {})), 0);
  EXPECT_EQ(several["differences_from_plan"].size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Samples, LayoutsProcessTest,
    ::testing::Values(Sample{"llama",
                             {"parallel={data: 2, tensor: 2, pipeline: 2, zero_stage: 3}",
                              "memory.nvme.path=.",
                              "memory.placement={parameters: nvme, optimizer_state: nvme}"}},
                      Sample{"gpt2",
                             {"parallel={context: 2, pipeline: 4, zero_stage: 1, schedule: zero_bubble}",
                              "train.recompute=full"}},
                      Sample{"qwen3_moe",
                             {"parallel={tensor: 2, pipeline: 4, schedule: interleaved, chunks: 2}",
                              "memory.placement.parameters=host", "train.recompute=none"}}),
    [](const auto& info) { return info.param.model; });

using LayoutProcessTest = LayoutsProcessTest;

/// With state on drives, late updates, and saves of all ranks while they train.
TEST_F(LayoutProcessTest, EndsWhereOneIsKilledAndOneProcessGoesOnAndThenAllDo) {
  if (const std::string reason = why_no_drive(path("")); !reason.empty()) GTEST_SKIP() << reason;
  const auto run_until = [&](int step, Arguments more) {
    more.insert(more.end(), {fmt::format("train.steps={}", step), "optimizer.lr=1e-3"});
    return run("llama", more);
  };
  const Arguments layout = {"checkpoint.path=out",
                            "parallel={data: 2, tensor: 2, pipeline: 2, zero_stage: 3}", "memory.nvme.path=.",
                            "memory.placement={parameters: nvme, optimizer_state: nvme}"};
  const nlohmann::json expected = report(run_until(24, {}));

  Arguments killed = layout;
  killed.insert(killed.end(), {"checkpoint.every=2", "report.metrics=metrics"});
  LinePipe metrics(path("metrics"));
  Process launcher = start_ranks(kRanks, run_until(400, killed));
  ASSERT_TRUE(metrics.wait_for_lines(5));
  const std::vector<pid_t> ranks = children_of(launcher.id());
  ASSERT_EQ(ranks.size(), static_cast<std::size_t>(kRanks));
  ::kill(ranks[5], SIGKILL);
  const Outcome outcome = launcher.wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 5"));

  const nlohmann::json alone = report(run_until(16, {"checkpoint.path=out"}));
  ASSERT_LT(alone["loss"].size(), 16U) << "it begins anew";
  expect_losses(alone, expected, 16 - alone["loss"].size());
  const nlohmann::json all = report_of_ranks(run_until(24, layout));
  ASSERT_EQ(all["loss"].size(), 8U);
  expect_losses(all, expected, 16);
}

}  // namespace
}  // namespace strata::test
