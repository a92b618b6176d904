#include "engine/run/assembly/one_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "collectives/agreement.h"
#include "collectives/same_on_all.h"
#include "engine/config/common_values.h"
#include "engine/config/run_config.h"
#include "engine/input/data/training_data.h"
#include "engine/run/tune/host_figures.h"

namespace strata {
namespace {

/// The tokens of a few microbatches that are spread over the run's first epoch, and of the first that are
/// held out: so other files are found, too, that have as many tokens.
std::string hash_of_samples(const RunConfig& config, const BatchLoader& data) {
  const std::int64_t steps = std::min(config.train.steps, data.training_sequences() / config.train.batch + 1);
  const std::int64_t samples = std::min<std::int64_t>(16, steps);
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(config.train.microbatch * config.data.sequence_length));
  std::vector<std::int32_t> targets(tokens.size());
  StreamingHash hash;
  const auto add = [&] { hash.update(std::as_bytes(std::span(tokens))); };
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    data.fill(steps / samples * sample, 0, tokens, targets);
    add();
  }
  if (data.validation_microbatches() > 0) {
    data.fill_validation(0, tokens, targets);
    add();
  }
  return hex(hash.digest());
}

std::string hash_of(const SamplePrompts& prompts) {
  StreamingHash hash;
  const auto add = [&](std::span<const std::int32_t> ids) {
    const auto count = std::ssize(ids);
    hash.update(std::as_bytes(std::span(&count, 1)));
    hash.update(std::as_bytes(ids));
  };
  for (const SamplePrompts::Prompt& prompt : prompts.prompts) add(prompt.ids);
  add(std::vector<std::int32_t>(prompts.stops.begin(), prompts.stops.end()));
  return hex(hash.digest());
}

/// Hashes the text that strata plan --program prints, which says all of it.
std::string hash_of(const Program& program) {
  return hex(hash_text(print(program)));
}

/// What a plan runs, and the memory of each tier that it takes.
void add_programs(Facts& facts, const Plan& plan, const std::string& of_whom) {
  for (const Tier tier : kTiers)
    facts.emplace_back(fmt::format("planned bytes of the tier {}{}", name_of(tier), of_whom),
                       fmt::format("{}", plan.arena_bytes(tier)));
  facts.emplace_back("a hash of the training program" + of_whom, hash_of(plan.training().program));
  for (const Interlude interlude : kInterludes) {
    const auto found = plan.interludes().find(interlude);
    facts.emplace_back(fmt::format("a hash of the {} program{}", name_of(interlude), of_whom),
                       found == plan.interludes().end() ? "" : hash_of(found->second.program));
  }
}

}  // namespace

MachineRates agree_on_hosts(RunConfig& config, Communicator* world) {
  std::vector<HostFigures> all;
  for (const std::string& text : texts_of_ranks(world, [&] { return to_text(host_figures(config)); }))
    all.push_back(figures_from_text(text));
  const HostFigures agreed = smallest(all);
  config = with_budgets(std::move(config), agreed);
  return agreed.rates;
}

void require_one_run(const PreparedModel& model, bool fresh, Communicator* world) {
  if (world == nullptr) return;
  const RunConfig& config = model.config;
  const Architecture& architecture = model.model.architecture;
  const BatchLoader& data = *model.data;
  Facts facts = common_values(config);
  facts.emplace_back("--fresh", fresh ? "given" : "");
  const nlohmann::json keys = to_hf_config(architecture);
  for (const auto& [key, value] : keys.items()) facts.emplace_back("the model's " + key, value.dump());
  facts.emplace_back("the model's dropout",
                     fmt::format("{}, {}", architecture.embedding_dropout, architecture.residual_dropout));
  facts.emplace_back("sequences to train on", fmt::format("{}", data.training_sequences()));
  facts.emplace_back("where sampling begins", training_data(data).sampler(0).dump());
  facts.emplace_back("sequences held out", fmt::format("{}", data.validation_sequences()));
  std::string samples;
  on_every_rank(world, [&] { samples = hash_of_samples(config, data); });
  facts.emplace_back("a hash of the data's tokens", samples);
  facts.emplace_back("a hash of the tokens of train.samples.prompts", hash_of(model.prompts));
  require_same(world, facts, "all ranks of a run need the same run file, model and data");
}

void require_one_plan(const std::vector<Plan>& plans, Communicator* world) {
  if (world == nullptr) return;
  Facts facts;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const Plan& plan = plans[p];
    const std::string of_whom =
        plans.size() > 1 ? fmt::format(" of stage {}{}", plan.merged ? "set " : "", p) : "";
    if (!plan.merged) {
      facts.emplace_back("the planned order" + of_whom, plan.only().strategy.order == Order::layer_major
                                                            ? "layer_major"
                                                            : "microbatch_major");
    }
    add_programs(facts, plan, of_whom);
  }
  require_same(world, facts, "ranks with the same run file plan alike if they run the same build of strata");
}

}  // namespace strata
