// Layouts of ranks that have, together, all pairs of choices of a run train as one rank does: all triples
// with STRATA_TEST_LAYOUTS=triples.txt in the environment. tests/layouts/cover.py makes the lists.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/execute/gradients.h"
#include "tests/execute/support.h"
#include "tests/support/drive.h"
#include "tests/support/source_folder.h"

namespace strata {
namespace {

using test::expect_the_plan_was_exact;
using test::RunOutcome;

/// A line of a list: the word of each choice.
using CoveringLayout = std::map<std::string, std::string>;

std::vector<CoveringLayout> covering_layouts() {
  const char* variable = std::getenv("STRATA_TEST_LAYOUTS");
  const std::string name = variable == nullptr ? "pairs.txt" : variable;
  std::ifstream file(test::source_folder() / "tests/layouts" / name);
  const auto words = [&file] {
    std::string line;
    std::getline(file, line);
    std::istringstream stream(line);
    return std::vector<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  const std::vector<std::string> choices = words();
  std::vector<CoveringLayout> layouts;
  for (std::vector<std::string> line = words(); !line.empty(); line = words()) {
    CoveringLayout& layout = layouts.emplace_back();
    for (std::size_t i = 0; i < choices.size(); ++i) layout[choices[i]] = line.at(i);
  }
  if (layouts.empty()) throw std::runtime_error("no layouts in tests/layouts/" + name);
  return layouts;
}

std::string name_of(const CoveringLayout& layout) {
  return fmt::format(
      "{}_data_{}_tensor_{}_pipeline_{}_context_{}_stage_{}_{}_{}_recompute_{}_packing_{}_"
      "adapters_{}_dropout_{}_{}",
      layout.at("model"), layout.at("data"), layout.at("tensor"), layout.at("pipeline"), layout.at("context"),
      layout.at("zero_stage"), layout.at("schedule"), layout.at("placement"), layout.at("recompute"),
      layout.at("packing"), layout.at("adapters"), layout.at("dropout"), layout.at("frozen_as"));
}

template <typename E>
E choice_of(const std::string& word) {
  const auto found = std::ranges::find(Words<E>::list, word);
  if (found == Words<E>::list.end()) throw std::runtime_error("tests/layouts names a choice " + word);
  return static_cast<E>(found - Words<E>::list.begin());
}

/// Texts that are shorter and longer than a sequence.
std::vector<std::string> documents_in(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  for (std::size_t number = 0; number < 80; ++number) {
    std::string text;
    for (std::size_t i = 0; i < 1 + number * number % 43; ++i)
      text += static_cast<char>('a' + (i * i + 3 * number) % 26);
    paths.push_back((folder / fmt::format("document-{:02}", number)).string());
    std::ofstream(paths.back()) << text;
  }
  return paths;
}

/// Six layers that four ranks can share, and that eight chunks can.
RunConfig alone(const std::string& model, DataPacking packing, AdapterType adapters, bool drops,
                ParameterFormat frozen_as, const std::filesystem::path& folder) {
  static const std::map<std::string, nlohmann::json> models = {{"llama",
                                                                {{"num_hidden_layers", 6},
                                                                 {"hidden_size", 32},
                                                                 {"num_attention_heads", 8},
                                                                 {"num_key_value_heads", 4},
                                                                 {"intermediate_size", 48},
                                                                 {"vocab_size", 128}}},
                                                               {"gpt2",
                                                                {{"n_layer", 6},
                                                                 {"n_embd", 32},
                                                                 {"n_head", 4},
                                                                 {"n_positions", 32},
                                                                 {"vocab_size", 128},
                                                                 {"embd_pdrop", 0.1},
                                                                 {"resid_pdrop", 0.1},
                                                                 {"tie_word_embeddings", true}}},
                                                               {"qwen3_moe",
                                                                {{"num_hidden_layers", 6},
                                                                 {"hidden_size", 32},
                                                                 {"num_attention_heads", 8},
                                                                 {"num_key_value_heads", 4},
                                                                 {"head_dim", 8},
                                                                 {"intermediate_size", 48},
                                                                 {"mlp_only_layers", {1}},
                                                                 {"num_experts", 4},
                                                                 {"num_experts_per_tok", 2},
                                                                 {"moe_intermediate_size", 16},
                                                                 {"output_router_logits", true},
                                                                 {"router_aux_loss_coef", 0.1},
                                                                 {"vocab_size", 128}}}};
  RunConfig config = test::tiny_run(folder);
  config.model.architecture = model;
  config.model.config = models.at(model);
  config.train.batch = 8;
  config.train.microbatch = 1;
  config.train.steps = 10;
  config.train.precision = DType::fp32;
  config.train.threads = 1;
  config.data.packing = packing;
  config.adapter.type = adapters;
  if (adapters == AdapterType::dora) {  // they have many nodes: ranks share one layer's outputs, one's inputs
    config.adapter.targets = {"k_proj", "o_proj"};
    if (model == "gpt2") config.adapter.targets = {"c_attn", "attn.c_proj"};
  }
  config.train.dropout = drops && model == "gpt2";
  if (drops && adapters == AdapterType::lora) config.adapter.dropout = 0.1;
  config.memory.frozen_as = frozen_as;
  // At the others' rate GPT-2's last loss changes by 3e-4 with the order of any sum.
  if (adapters != AdapterType::none || drops) config.optimizer.learning_rate = 2e-3;
  if (packing == DataPacking::documents) config.data.path = documents_in(folder);
  return config;
}

/// Before the first step and after the last. What is watched besides are passes of steps alone.
RunConfig with_samples(RunConfig config) {
  config.samples = {.prompts = {"line ", "of a small", "7"}, .max_length = 18};
  return config;
}

using Tokens = std::vector<std::vector<std::int32_t>>;

Tokens sampled_tokens(const TrainResult& result) {
  Tokens tokens;
  for (const SamplePoint& point : result.samples)
    for (const Sample& sample : point.samples) tokens.push_back(sample.ids);
  return tokens;
}

struct Reference {
  std::vector<double> losses;
  Tokens samples;
  test::Watched watched;
};

class Layouts : public ::testing::TestWithParam<CoveringLayout> {
 protected:
  const std::string& choice(const std::string& name) const { return GetParam().at(name); }
  int count(const std::string& name) const { return std::stoi(choice(name)); }
  int ranks() const { return count("data") * count("tensor") * count("pipeline") * count("context"); }

  RunConfig alone() const {
    return strata::alone(choice("model"), choice_of<DataPacking>(choice("packing")),
                         choice_of<AdapterType>(choice("adapters")), choice("dropout") == "some",
                         choice_of<ParameterFormat>(choice("frozen_as")), folder_.path());
  }
  RunConfig config() const {
    RunConfig config = alone();
    config.parallel.data = count("data");
    config.parallel.tensor = count("tensor");
    config.parallel.context = count("context");
    config.parallel.pipeline = count("pipeline");
    config.parallel.zero_stage = count("zero_stage");
    config.parallel.schedule = choice_of<PipelineSchedule>(choice("schedule"));
    const bool has_chunks = config.parallel.schedule == PipelineSchedule::interleaved ||
                            config.parallel.schedule == PipelineSchedule::breadth_first;
    config.parallel.chunks = has_chunks ? 2 : 1;
    config.train.recompute = choice_of<Recompute>(choice("recompute"));
    if (choice("placement") == "resident") return config;
    config.memory.device = test::smallest_bytes(with_samples(config));
    if (choice("placement") == "host") return config;
    config.memory.nvme_path = {folder_.path().string()};
    config.memory.parameters = config.memory.optimizer_state = TierChoice::nvme;
    return config;
  }
  /// What one rank does with everything on its device. Each process runs it once for each of these choices.
  const Reference& reference() const {
    static std::map<std::string, Reference> references;
    const auto [found, is_new] = references.try_emplace(
        choice("model") + choice("packing") + choice("adapters") + choice("dropout") + choice("frozen_as"));
    if (is_new) {
      const TrainResult result = test::run(with_samples(alone())).result;
      for (const StepReport& step : result.steps) found->second.losses.push_back(step.loss);
      found->second.samples = sampled_tokens(result);
      found->second.watched = test::watch(test::model_of(alone()), alone());
    }
    return found->second;
  }

  test::TemporaryFolder folder_;
};

// Invariant of ranks (Layouts.*): Choices combine. A list of layouts covers all pairs of the choices below,
// and each layout follows the run of one rank within 1e-5 in fp32. The choices are data, context, tensor,
// pipeline, ZeRO stage, schedule, placement, recomputation, packing, adapters, frozen nf4, dropout and
// architecture. `STRATA_TEST_LAYOUTS=triples.txt` covers all triples.
TEST_P(Layouts, FollowTheRunOfOneRank) {
  if (const std::string reason = test::why_no_drive(folder_.path());
      choice("placement") == "nvme" && !reason.empty())
    GTEST_SKIP() << reason;
  const RunConfig config = this->config();
  const Reference& expected = reference();
  const test::Watched found = test::watch(test::model_of(config), config, ranks());
  ASSERT_EQ(found.routes, expected.watched.routes) << "tokens go to other experts";

  double largest = 0;
  std::string farthest = "-";
  for (const auto& [name, difference] :
       test::relative_differences(expected.watched.gradients, found.gradients)) {
    EXPECT_LE(difference, 1e-5) << name;
    if (difference > largest) {
      largest = difference;
      farthest = name;
    }
  }
  double largest_of_losses = 0;
  for (const RunOutcome& rank : test::run_ranks(with_samples(config), ranks())) {
    ASSERT_EQ(rank.result.steps.size(), expected.losses.size());
    EXPECT_EQ(sampled_tokens(rank.result), expected.samples);
    for (std::size_t step = 0; step < expected.losses.size(); ++step) {
      const double difference =
          std::abs(rank.result.steps[step].loss - expected.losses[step]) / expected.losses[step];
      EXPECT_LE(difference, 1e-5) << "step " << step;
      largest_of_losses = std::max(largest_of_losses, difference);
    }
    EXPECT_EQ(rank.result.state_hash, found.state_hash)
        << "one instruction at a time, and lanes side by side";
    expect_the_plan_was_exact(rank);
  }
  for (const auto& [choice, word] : GetParam()) RecordProperty(choice, word);
  RecordProperty("gradients", fmt::format("{}", largest));
  RecordProperty("farthest", farthest);
  RecordProperty("losses", fmt::format("{}", largest_of_losses));
  RecordProperty("state_hash", found.state_hash);
}

INSTANTIATE_TEST_SUITE_P(Covering, Layouts, ::testing::ValuesIn(covering_layouts()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace strata
