// Samples' program: a forward pass over what every rank has of them, whose tokens all ranks come to know,
// with state where training has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/model/sampling_model.h"
#include "engine/plan/place/search.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

Model sampled_model() {
  Model model = tiny_model(3);
  model.sampling = std::make_shared<const Model>(sampling_model(tiny_model(3), 16));
  return model;
}

RunConfig sampling_config() {
  RunConfig config = tiny_config();
  config.samples = {.prompts = {"a", "b", "c"}, .every = 1, .max_length = 11};
  config.data.sequence_length = 16;
  return config;
}

std::vector<std::string> operations_of(const Program& program) {
  std::vector<std::string> operations;
  for (const Instruction& instruction : program.instructions) {
    if (!is_transfer(instruction.operation)) operations.emplace_back(name_of(instruction.operation));
  }
  return operations;
}

Bytes bytes_of(const Program& program, const std::string& name, Tier tier) {
  for (const Buffer& buffer : program.buffers)
    if (*buffer.name == name && buffer.tier == tier) return buffer.bytes;
  return 0;
}

// Invariant (Sampling.*): Samples are those of generation.
TEST(Sampling, IsAForwardPassAndWhatFollowsFromItsLogits) {
  const Model model = sampled_model();
  const Program program = lower_sampling(model, make_strategy(sampling_config(), model));
  EXPECT_THAT(operations_of(program), ElementsAre("load_data", "forward", "forward", "forward", "forward",
                                                  "forward", "join_logits", "choose_tokens", "take_tokens"));
}

TEST(Sampling, AddsUpWhatRanksHaveChosen) {
  const Model model = sampled_model();
  RunConfig config = sampling_config();
  config.parallel.data = 2;
  const Program program = lower_sampling(model, make_strategy(config, model));
  std::vector<std::string> operations = operations_of(program);
  std::erase(operations, "all_gather");
  EXPECT_THAT(operations, ElementsAre("load_data", "forward", "forward", "forward", "forward", "forward",
                                      "join_logits", "choose_tokens", "all_reduce", "take_tokens"));
}

TEST(Sampling, OfStagesBeginsInTheFirstAndChoosesInTheLast) {
  const Model model = sampled_model();
  RunConfig config = sampling_config();
  config.parallel.pipeline = 2;
  config.parallel.stages = {"embedding", "block.1"};
  EXPECT_THAT(
      operations_of(lower_sampling(model, make_strategy(config, model, 0))),
      ElementsAre("load_data", "forward", "forward", "send", "choose_tokens", "all_reduce", "take_tokens"));
  EXPECT_THAT(operations_of(lower_sampling(model, make_strategy(config, model, 1))),
              ElementsAre("load_data", "receive", "forward", "forward", "forward", "join_logits",
                          "choose_tokens", "all_reduce", "take_tokens"));
}

/// Sequences of samples are no longer than they may become, and logits are of their last tokens.
TEST(Sampling, HasNoMoreThanItsSamples) {
  const Model model = sampled_model();
  RunConfig config = sampling_config();
  const Program program = lower_sampling(model, make_strategy(config, model));
  const std::int64_t vocabulary = model.architecture.vocabulary;
  EXPECT_EQ(bytes_of(program, "tokens[mb=0]", Tier::host), align_up(3 * 11 * 4, kBufferAlignment));
  EXPECT_EQ(bytes_of(program, "all_logits", Tier::host), align_up(3 * vocabulary * 4, kBufferAlignment));
  config.samples.max_length = 1000;
  const Program longest = lower_sampling(model, make_strategy(config, model));
  EXPECT_EQ(bytes_of(longest, "tokens[mb=0]", Tier::host), align_up(3 * 16 * 4, kBufferAlignment));
}

TEST(Sampling, HasStateWhereTrainingHasIt) {
  const Model model = sampled_model();
  RunConfig config = sampling_config();
  const ModelPlan resident = make_plan(config, model);
  config.memory.device = smallest_device_bytes(config, model);
  for (const ModelPlan& plan : {resident, make_plan(config, model)}) {
    const auto persistent = [](const Program& program) {
      std::vector<Buffer> buffers;
      for (const Buffer& buffer : program.buffers)
        if (buffer.persistent) buffers.push_back(buffer);
      for (Buffer& buffer : buffers) buffer.renewed = false;
      return buffers;
    };
    const Program& sampling = plan.interludes.at(Interlude::sampling).program;
    EXPECT_THAT(persistent(sampling), ElementsAreArray(persistent(plan.training.program)));
  }
}

/// Ranks of a layer share out a microbatch's tokens.
TEST(Sampling, HasSequencesThatRanksCanShare) {
  RunConfig config = sampling_config();
  config.parallel.tensor = 4;
  config.parallel.sequence = true;
  EXPECT_EQ(samples_of(config).of_rank.sequence, 12);
  EXPECT_EQ(samples_of(config).longest, 11);
  config.data.sequence_length = 10;
  const MicrobatchShape shape = samples_of(config).of_rank;
  EXPECT_EQ(shape.sequence, 10);
  EXPECT_EQ(shape.batch, 4);
}

}  // namespace
}  // namespace strata
