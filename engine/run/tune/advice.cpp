#include "engine/run/tune/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/config/describe.h"
#include "engine/config/load.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/place/refusal.h"
#include "engine/plan/planner/run_certificate.h"
#include "engine/run/tune/planning_rates.h"
#include "engine/run/tune/size_limit.h"

namespace strata {
namespace {

/// More than any run needs of a tier.
constexpr Bytes kEnough = Bytes{1} << 50;
/// Instructions of a program that takes seconds to plan, and about as many of a pass of a microbatch.
constexpr std::int64_t kLargeProgram = 50'000, kInstructionsPerPass = 10;

/// A change, with the run that has it.
struct Trial {
  Change change;
  std::vector<RunConfig> configs = {};
  MachineRates rates = {};
};

/// "memory.device 2GiB": a setting as a person reads it.
std::string words_of(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const std::string value = setting.substr(equals + 1);
  return fmt::format("{} {}", setting.substr(0, equals),
                     value == std::to_string(kEnough) ? "unlimited" : value);
}

std::string words_of(const Change& change) {
  if (change.settings.empty()) return "a faster " + change.kind();
  std::vector<std::string> words;
  words.reserve(change.settings.size());
  for (const std::string& setting : change.settings) words.push_back(words_of(setting));
  return fmt::format("{}", fmt::join(words, ", "));
}

Trial make_trial(const AdviceInput& input, Change change) {
  Trial trial = {.change = std::move(change)};
  trial.configs = with_change(input, trial.change);
  RunConfig rated = trial.configs.front();
  if (!input.has_bf16) rated.train.precision = input.configs.front().train.precision;
  trial.rates = trial.change.rates(planning_rates(rated));
  return trial;
}

/// Whether this machine has less memory than the budgets of the tiers in it.
bool exceeds_machine(const AdviceInput& input, const RunConfig& run) {
  const bool shares_memory = run.device.kind == DeviceKind::cpu && run.memory.device != kUnlimited;
  const Bytes others = shares_memory ? run.memory.device : 0, host = run.memory.host.value_or(0);
  return host > input.machine_memory || others > input.machine_memory - host;
}

Prediction prediction_of(const Trial& trial, const PlannedRun& run) {
  return {.change = trial.change,
          .step = run.step,
          .tokens = run.tokens,
          .peaks = run.peaks(),
          .budgets = memory_request(trial.configs.front().memory).budgets()};
}

/// What is said when trial `number` begins, counted from 1.
using Announcement = std::function<std::string(std::size_t number, const Trial& trial)>;

/// What each takes; nothing of those that cannot be planned.
std::vector<std::optional<Prediction>> predict(const AdviceInput& input, const std::vector<Trial>& trials,
                                               const Announcement& announcement) {
  std::vector<std::optional<Prediction>> predictions(trials.size());
  std::atomic<std::size_t> begun = 0;
  for_ranges(std::ssize(trials), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t t = first; t < last; ++t) {
      const Trial& trial = nth(trials, t);
      input.on_planning(announcement(++begun, trial));
      const std::optional<PlannedRun> run = find_run(input, trial.configs, trial.rates);
      if (run) nth(predictions, t) = prediction_of(trial, *run);
    }
  });
  return predictions;
}

/// REQUIRES: `trials` are all changes that are tried, so that their number is final.
std::vector<std::optional<Prediction>> predict_changes(const AdviceInput& input,
                                                       const std::vector<Trial>& trials) {
  return predict(input, trials, [&](std::size_t number, const Trial& trial) {
    return fmt::format("planning change {} of {}: {}", number, trials.size(), words_of(trial.change));
  });
}

/// Those that the run file takes, and that change something.
std::vector<Trial> make_trials(const AdviceInput& input, const Trial& now, std::vector<Change> changes) {
  std::vector<Trial> trials;
  for (Change& change : changes) {
    try {
      Trial trial = make_trial(input, std::move(change));
      if (trial.configs == now.configs && trial.rates == now.rates) continue;
      for (std::size_t m = 0; m < trial.configs.size(); ++m) check_size(trial.configs[m], *input.models[m]);
      if (exceeds_machine(input, trial.configs.front()) && !exceeds_machine(input, now.configs.front()))
        trial.change.effect = std::max(trial.change.effect, ChangeEffect::machine);
      trials.push_back(std::move(trial));
    } catch (const ConfigError&) {  // keys that do not go together, or a program that is too large
    }
  }
  return trials;
}

/// Budgets with memory enough, on the host alone or on the device too.
Change with_room(const RunConfig& run, bool on_device) {
  Change change;
  if (on_device) change.settings.push_back(fmt::format("memory.device={}", kEnough));
  if (run.memory.host) change.settings.push_back(fmt::format("memory.host={}", kEnough));
  return change;
}

/// One change of each kind: the smallest that saves at least half of what the best saves of the `most` that a
/// token takes; those of a kind come in rising size.
std::vector<Prediction> one_of_each_kind(std::vector<Prediction> predictions, double most) {
  std::map<std::string, double> best;
  for (const Prediction& one : predictions) {
    const auto [known, is_new] = best.try_emplace(one.change.kind(), one.seconds_per_token());
    if (!is_new) known->second = std::min(known->second, one.seconds_per_token());
  }
  std::vector<Prediction> kept;
  for (Prediction& one : predictions) {
    const auto found = best.find(one.change.kind());
    if (found == best.end() || most - one.seconds_per_token() < (most - found->second) / 2) continue;
    best.erase(found);
    kept.push_back(std::move(one));
  }
  return kept;
}

/// If changes save about as much, that with the least effect comes first.
void rank_by_gain(std::vector<Prediction>& predictions, const Prediction& now) {
  const auto key = [&](const Prediction& one) {
    const double gain = 1 - one.seconds_per_token() / now.seconds_per_token();
    return std::tuple(-std::floor(gain / kLeastGain), one.change.effect, -gain);
  };
  std::ranges::stable_sort(predictions, {}, key);
}

bool needs_memory(const Prediction& one) {
  constexpr std::array kBudgets = {"memory.device", "memory.host", "memory.nvme"};
  return std::ranges::any_of(
      kBudgets, [kind = one.change.kind()](const char* budget) { return kind.starts_with(budget); });
}

/// One that needs no more memory is shown, whatever comes before it: a user may have no other machine.
void rank_by_effect(std::vector<Prediction>& predictions) {
  std::ranges::stable_sort(predictions, {}, [](const Prediction& one) {
    return std::tuple(one.change.effect, needs_memory(one), one.seconds_per_token());
  });
  const auto found = std::ranges::find_if_not(predictions, needs_memory);
  const auto shown = static_cast<std::ptrdiff_t>(kMostAdvised);
  if (found != predictions.end() && found - predictions.begin() >= shown)
    std::rotate(predictions.begin() + shown - 1, found, found + 1);
}

/// Drops a change if a part of it makes the run fit, too.
void keep_least(std::vector<Prediction>& predictions) {
  std::vector<Change> fitting;
  fitting.reserve(predictions.size());
  for (const Prediction& one : predictions) fitting.push_back(one.change);
  std::erase_if(predictions, [&](const Prediction& one) {
    return std::ranges::any_of(fitting, [&](const Change& less) { return less.is_part_of(one.change); });
  });
}

/// Plans the run with memory enough: if that makes a step no shorter, no size in between is tried.
ChangeFacts find_facts(const AdviceInput& input, const Trial& now, Advice& advice) {
  const RunConfig& run = now.configs.front();
  const bool is_tight = run.memory.device != kUnlimited || run.memory.host.value_or(kUnlimited) != kUnlimited;
  ChangeFacts facts;
  if (advice.run) {
    facts.uses_drives = has_drives(advice.now.peaks);
    for (const RankProgram& rank : advice.run->ranks)
      facts.is_large = facts.is_large || std::ssize(rank.program->instructions) > kLargeProgram;
  } else {
    for (std::size_t m = 0; m < now.configs.size(); ++m)
      facts.is_large = facts.is_large || now.configs[m].microbatches() * std::ssize(input.models[m]->units) >
                                             kLargeProgram / kInstructionsPerPass;
  }
  if (!is_tight) return facts;
  std::vector<Trial> trials = {make_trial(input, with_room(run, true))};
  if (run.memory.host && (!advice.run || facts.uses_drives))
    trials.push_back(make_trial(input, with_room(run, false)));
  std::vector<std::optional<Prediction>> roomy = predict(input, trials, [](std::size_t, const Trial& trial) {
    return fmt::format("planning the run with enough memory: {}", words_of(trial.change));
  });
  if (!roomy.front()) return facts;
  const auto peak = [](const Prediction& one, Tier tier) { return one.peaks[tier]; };
  facts.enough_device = peak(*roomy.front(), Tier::device);
  facts.enough_host = peak(*roomy.front(), Tier::host);
  if (roomy.back()) facts.enough_host = std::max(facts.enough_host, peak(*roomy.back(), Tier::host));
  facts.memory_helps =
      !advice.run || roomy.front()->seconds_per_token() < (1 - kLeastGain) * advice.now.seconds_per_token() ||
      (roomy.back() && roomy.back()->seconds_per_token() < (1 - kLeastGain) * advice.now.seconds_per_token());
  advice.roomy = std::move(roomy.front());
  return facts;
}

/// Budgets with which the run fits, or one of its models alone, as its refusal tells.
Change with_budgets(const NeededBudgets& needed) {
  Change change;
  const auto raise = [&](std::string_view key, const std::optional<Bytes>& bytes) {
    if (bytes)
      change.settings.push_back(fmt::format(
          "{}={}", key, exact_bytes(align_up(*bytes, *bytes < 64 * MiB ? kBufferAlignment : MiB))));
  };
  raise("memory.device", needed.device);
  raise("memory.host", needed.host);
  raise("memory.nvme.size", needed.nvme);
  return change;
}

void find_faster(const AdviceInput& input, const Trial& now, const ChangeFacts& facts, Advice& advice) {
  const std::vector<Trial> trials = make_trials(input, now, faster_changes(now.configs, facts));
  advice.planned = trials.size();
  for (std::optional<Prediction>& one : predict_changes(input, trials)) {
    if (one && one->seconds_per_token() < (1 - kLeastGain) * advice.now.seconds_per_token())
      advice.changes.push_back(std::move(*one));
  }
  advice.changes = one_of_each_kind(std::move(advice.changes), advice.now.seconds_per_token());
  rank_by_gain(advice.changes, advice.now);
}

void find_fitting(const AdviceInput& input, const Trial& now, const ChangeFacts& facts,
                  const NeededBudgets& needed, Advice& advice) {
  std::vector<Change> changes;
  if (Change smallest = with_budgets(needed); !smallest.settings.empty())
    changes.push_back(std::move(smallest));
  std::ranges::move(smaller_changes(now.configs, facts), std::back_inserter(changes));
  const std::vector<Trial> trials = make_trials(input, now, std::move(changes));
  advice.planned = trials.size();
  for (std::optional<Prediction>& one : predict_changes(input, trials))
    if (one) advice.changes.push_back(std::move(*one));
  keep_least(advice.changes);
  advice.changes = one_of_each_kind(std::move(advice.changes), std::numeric_limits<double>::infinity());
  rank_by_effect(advice.changes);
}

}  // namespace

std::vector<ConfiguredModel> configured(const AdviceInput& input, const std::vector<RunConfig>& configs) {
  std::vector<ConfiguredModel> models;
  models.reserve(configs.size());
  for (std::size_t m = 0; m < configs.size(); ++m)
    models.push_back({input.names[m], &configs[m], input.models[m]});
  return models;
}

std::vector<ModelToPlan> to_plan(const AdviceInput& input, const std::vector<RunConfig>& configs) {
  return models_to_plan(configured(input, configs));
}

std::optional<PlannedRun> find_run(const AdviceInput& input, const std::vector<RunConfig>& configs,
                                   const MachineRates& rates) {
  try {
    return find_run(to_plan(input, configs), input.is_several, rates);
  } catch (const ConfigError&) {  // choices do not go together
    return std::nullopt;
  }
}

std::vector<RunConfig> with_change(const AdviceInput& input, const Change& change) {
  std::vector<RunConfig> configs;
  configs.reserve(input.configs.size());
  for (const RunConfig& given : input.configs)
    configs.push_back(parse_run_config(dump(given), "the run file", change.settings));
  input.set_budgets(configs);
  return configs;
}

Advice advise(const AdviceInput& input) {
  Advice advice;
  const Trial now = make_trial(input, {});
  const std::vector<ModelToPlan> models = to_plan(input, now.configs);
  NeededBudgets needed;
  input.on_planning("planning the run as it is");
  try {
    advice.run = plan_run(models, input.is_several, now.rates);
    advice.now = prediction_of(now, *advice.run);
    input.on_planning("finding the bound of its step");
    advice.certificate = certify(advice.run->plans, models, now.rates);
  } catch (const BudgetError& error) {
    advice.refusal = error.what();
    needed = error.needed;
  }
  const ChangeFacts facts = find_facts(input, now, advice);
  if (advice.run) {
    find_faster(input, now, facts, advice);
  } else {
    find_fitting(input, now, facts, needed, advice);
  }
  if (advice.changes.size() > kMostAdvised) advice.changes.resize(kMostAdvised);
  return advice;
}

}  // namespace strata
