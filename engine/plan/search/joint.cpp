#include "engine/plan/search/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/config/describe.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/search/finish.h"
#include "engine/plan/search/refusal.h"
#include "engine/plan/search/search.h"
#include "engine/plan/search/size_limit.h"
#include "engine/plan/search/timeline.h"

namespace strata {
namespace {

/// What a model's strategy depends on, as text.
std::string shape_of(RunConfig config) {
  const RunConfig none;
  RunConfig::OptimizerSection& optimizer = config.optimizer;
  optimizer.learning_rate = none.optimizer.learning_rate;
  optimizer.betas = none.optimizer.betas;
  optimizer.epsilon = none.optimizer.epsilon;
  optimizer.weight_decay = none.optimizer.weight_decay;
  optimizer.schedule = none.optimizer.schedule;
  optimizer.warmup = none.optimizer.warmup;
  optimizer.minimum_ratio = none.optimizer.minimum_ratio;
  config.train.seed = none.train.seed;
  config.train.steps = none.train.steps;
  config.checkpoint.path = config.checkpoint.path.empty() ? "" : "some";
  config.report = none.report;
  config.data.path.clear();
  config.data.validation.clear();
  return dump(config);
}

/// Turns of a program, and how long each computes.
TurnsOfModel turns_of(const Program& plain, const MachineRates& rates, std::int64_t remaining_steps) {
  TurnsOfModel turns = {.seconds = {}, .visit = {}, .remaining_steps = remaining_steps};
  std::pair<std::int32_t, Operation> latest = {-1, Operation::zero};
  std::int32_t visit = -1;
  for (const Turn& turn : find_turns(plain)) {
    double seconds = 0;
    std::pair<std::int32_t, Operation> work = latest;
    for (std::int32_t i = turn.first; i < turn.last; ++i) {
      const Instruction& instruction = plain.instructions[static_cast<std::size_t>(i)];
      if (instruction.lane != Lane::compute) continue;
      seconds += seconds_of(plain, instruction, rates);
      if (instruction.flops > 0) work = {instruction.unit, instruction.operation};
    }
    if (work != latest || visit < 0) ++visit;
    latest = work;
    turns.seconds.push_back(seconds);
    turns.visit.push_back(visit);
  }
  return turns;
}

double computing_seconds(const Program& program, const MachineRates& rates) {
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.lane == Lane::compute) seconds += seconds_of(program, instruction, rates);
  }
  return seconds;
}

/// The best of an order counts.
void note(std::vector<ComparedOrder>& compared, const std::string& order, double seconds) {
  const auto found = std::ranges::find(compared, order, &ComparedOrder::name);
  if (found == compared.end()) {
    compared.push_back({order, seconds});
  } else {
    found->seconds = std::min(found->seconds, seconds);
  }
}

/// A model's state alone: a program that does nothing.
Program idle(const Program& plain) {
  Program program = plain.outline();
  program.buffers = plain.buffers;
  return program;
}

}  // namespace

Bytes JointPlan::arena_bytes(Tier tier) const {
  const Bytes bytes = training.of(tier).peak_bytes;
  return validation ? std::max(bytes, validation->of(tier).peak_bytes) : bytes;
}

void refuse_stages(const std::string& name, const RunConfig& config) {
  if (config.parallel.pipeline == 1) return;
  throw ConfigError(fmt::format(
      "parallel.pipeline: {} asks for {} stages, and several models are trained without; leave it "
      "out, or train one model at a time",
      name, config.parallel.pipeline));
}

JointPlanner::JointPlanner(std::vector<JointModel> models, const MachineRates& rates)
    : models_(std::move(models)), run_(*models_.front().config), rates_(rates) {
  for (const JointModel& model : models_) {
    refuse_stages(model.name, *model.config);
    check_size(*model.config, *model.model);
  }
}

/// The cheapest for the model alone with a share of the device, and with all that is beyond it on the host,
/// which decides about places only.
std::optional<Strategy> JointPlanner::strategy_of(std::size_t model, std::int64_t share) {
  const JointModel& of = models_[model];
  const auto [found, is_new] = strategies_.try_emplace({shape_of(*of.config), share});
  if (!is_new) return found->second;
  RunConfig config = *of.config;
  config.memory.device = config.memory.device == kUnlimited ? kUnlimited : config.memory.device / share;
  if (config.memory.host) config.memory.host = kUnlimited;
  config.memory.nvme_path.clear();
  Shortage shortage;
  std::optional<Placement> placement = CheapestSearch(config, *of.model, rates_).find(config, shortage);
  if (placement) found->second = std::move(placement->strategy);
  return found->second;
}

void JointPlanner::add_candidates(std::int64_t share, const std::vector<std::int64_t>& remaining_steps,
                                  const std::string& only, std::vector<Candidate>& candidates) {
  const auto active = std::ranges::count_if(remaining_steps, [](std::int64_t steps) { return steps > 0; });
  Candidate candidate;
  candidate.share = share;
  std::vector<TurnsOfModel> turns;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    candidate.strategies.emplace_back();
    candidate.plain.emplace_back();
    turns.emplace_back();
    if (remaining_steps[m] == 0) continue;
    std::optional<Strategy> strategy = strategy_of(m, share);
    if (!strategy) return;
    // The state of all models is there all the time, so it is on the device only if there is room for each's.
    const bool stays = share == active || all_state_on_device(*models_[m].config);
    candidate.strategies[m] = stays ? std::move(*strategy) : with_device_state(std::move(*strategy), 0);
    if (!first_strategies_.empty()) candidate.strategies[m].state = first_strategies_[m].state;
    candidate.plain[m] = leanest_training(*models_[m].model, candidate.strategies[m], *models_[m].config);
    turns[m] = turns_of(candidate.plain[m], rates_, remaining_steps[m]);
  }
  const auto is_same = [&](const Candidate& other) { return other.plain == candidate.plain; };
  if (std::ranges::any_of(candidates, is_same)) return;  // for another share
  for (TurnOrder& order : turn_orders(turns)) {
    if (!only.empty() && order.name != only) continue;
    Candidate& added = candidates.emplace_back(candidate);
    const std::vector<ModelProgram> of_models = parts(added.plain);
    added.merged = merge(of_models, order.models, groups_.empty() ? groups_of(of_models) : groups_);
    pin_state(added.merged, added.plain);
    added.order = std::move(order);
    const std::optional<StepCost> cost = step_cost(added.merged, run_.memory.device, rates_);
    if (cost) {
      added.seconds = cost->seconds;
    } else {
      candidates.pop_back();
    }
  }
}

/// By programs, of which those without instructions take no part.
std::vector<ModelProgram> JointPlanner::parts(const std::vector<Program>& programs) const {
  std::vector<ModelProgram> parts;
  parts.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m)
    parts.push_back({models_[m].name, programs[m].buffers.empty() ? nullptr : &programs[m]});
  return parts;
}

std::vector<JointPlanner::Candidate> JointPlanner::candidates(
    const std::vector<std::int64_t>& remaining_steps, const std::string& order) {
  const std::int64_t active =
      std::ranges::count_if(remaining_steps, [](std::int64_t steps) { return steps > 0; });
  std::vector<Candidate> all;
  std::set<std::int64_t> shares = {active, std::min<std::int64_t>(2, active), 1};
  if (first_share_ > 0) shares.insert(first_share_);  // with it, less than now was planned for
  for (const std::int64_t share : shares) add_candidates(share, remaining_steps, order, all);
  std::ranges::stable_sort(all, {}, &Candidate::seconds);
  return all;
}

/// Model after model, each in its first or in its second form.
std::vector<Program> JointPlanner::validations(const Candidate& candidate) const {
  std::vector<std::vector<Program>> of_models;
  std::size_t forms = 0;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    of_models.emplace_back();
    if (candidate.plain[m].buffers.empty()) continue;
    of_models[m] = plain_validations(*models_[m].model, candidate.strategies[m], *models_[m].config);
    forms = std::max(forms, of_models[m].size());
  }
  std::vector<Program> merged;
  for (std::size_t form = 0; form < forms; ++form) {
    std::vector<Program> programs(models_.size());
    std::vector<std::int32_t> order;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      if (candidate.plain[m].buffers.empty()) continue;
      const bool validates = !of_models[m].empty();
      programs[m] =
          validates ? of_models[m][std::min(form, of_models[m].size() - 1)] : idle(candidate.plain[m]);
      order.insert(order.end(), find_turns(programs[m]).size(), static_cast<std::int32_t>(m));
    }
    pin_state(merged.emplace_back(merge(parts(programs), order, candidate.merged.groups)), programs);
  }
  return merged;
}

JointPlan JointPlanner::plan(const std::vector<std::int64_t>& remaining_steps, const std::string& order) {
  Shortage shortage;
  std::optional<JointPlan> plan = find(remaining_steps, order, shortage);
  if (!plan) refuse(shortage);
  return std::move(*plan);
}

std::optional<JointPlan> JointPlanner::replan(const std::vector<std::int64_t>& remaining_steps,
                                              const std::string& order) {
  Shortage shortage;
  return find(remaining_steps, order, shortage);
}

std::optional<JointPlan> JointPlanner::find(const std::vector<std::int64_t>& remaining_steps,
                                            const std::string& order, Shortage& shortage) {
  constexpr double kGain = 0.99;  // less is within the error of rates
  constexpr std::size_t kMostPlaced = 8;
  std::optional<Choice> best;
  std::vector<ComparedOrder> compared;
  std::size_t placed = 0;
  double best_seconds = 0;
  for (Candidate& candidate : candidates(remaining_steps, order)) {
    const bool is_new =
        std::ranges::find(compared, candidate.order.name, &ComparedOrder::name) == compared.end();
    const bool can_gain = candidate.seconds < best_seconds && placed < kMostPlaced;
    if (best && !is_new && !can_gain) continue;
    for (const double kept_share : {1.0, 0.6, 0.45}) {
      std::optional<Placement> placement =
          place_plain(candidate.merged, validations(candidate), run_, kept_share, shortage);
      if (!placement) continue;
      const Program& training = placement->training;
      const double seconds =
          std::max(candidate.seconds, simulated_seconds(training, find_dependencies(training), rates_));
      ++placed;
      note(compared, candidate.order.name, seconds);
      if (best && seconds >= kGain * best_seconds) continue;
      best = Choice{std::move(*placement), candidate};
      best_seconds = seconds;
    }
  }
  if (!best) return std::nullopt;
  for (ComparedOrder& order : compared) order.is_chosen = order.name == best->candidate.order.name;
  const Candidate chosen_one = best->candidate;
  JointPlan plan = finish(std::move(*best));
  if (first_strategies_.empty()) remember(plan, chosen_one);
  plan.orders = std::move(compared);
  plan.round_seconds = best_seconds;
  return plan;
}

/// Units are numbered model after model, of those that take part.
JointPlanner::StateKey JointPlanner::key_of(const StatePlace& place, std::int32_t first_unit) {
  return {place.model, place.unit < 0 ? -1 : place.unit - first_unit, place.part, place.is_whole,
          place.piece.first};
}

void JointPlanner::pin_state(Program& program, const std::vector<Program>& plain) const {
  if (pins_.empty()) return;
  const std::vector<ModelProgram> of_models = parts(plain);
  for (const StatePlace& place : program.state) {
    const auto model = static_cast<std::size_t>(place.model);
    program.buffer(place.buffer).pin = pins_.at(key_of(place, first_unit(of_models, model)));
  }
}

void JointPlanner::remember(const JointPlan& first, const Candidate& candidate) {
  first_strategies_ = candidate.strategies;
  first_share_ = candidate.share;
  groups_ = first.training.program.groups;
  for (std::size_t m = 0; m < first.models.size(); ++m) {
    if (!first.models[m]) continue;
    const Program& own = first.models[m]->training.program;
    for (StatePlace place : own.state) {
      place.model = static_cast<std::int32_t>(m);
      const Buffer& buffer = own.buffer(place.buffer);
      pins_[key_of(place, 0)] = {buffer.tier, buffer.offset};
    }
  }
  run_.memory.device = first.arena_bytes(Tier::device);
  if (run_.memory.host) run_.memory.host = first.arena_bytes(Tier::host);
  run_.memory.nvme_size = first.arena_bytes(Tier::nvme);
}

JointPlan JointPlanner::finish(Choice best) const {
  JointPlan plan;
  plan.budgets = budgets_of(run_.memory);
  const std::vector<ModelProgram> of_models = parts(best.candidate.plain);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    plan.models.emplace_back();
    if (of_models[m].plain == nullptr) continue;
    Placement part{best.candidate.strategies[m], part_of(best.placement.training, of_models, m)};
    if (best.placement.validation && part.strategy.validation_microbatches > 0) {
      Program outline = lower_validation(*models_[m].model, part.strategy).outline();
      std::vector<ModelProgram> validation = of_models;
      validation[m].plain = &outline;
      part.validation = part_of(*best.placement.validation, validation, m);
    }
    plan.models[m] = strata::finish(std::move(part), *models_[m].config, *models_[m].model);
  }
  add_channels(best.placement.training, 0, plan.channels);
  if (best.placement.validation) add_channels(*best.placement.validation, 0, plan.channels);
  plan.computing_seconds = computing_seconds(best.placement.training, rates_);
  plan.training = strata::finish(std::move(best.placement.training), run_.memory);
  if (best.placement.validation)
    plan.validation = strata::finish(std::move(*best.placement.validation), run_.memory);
  return plan;
}

void JointPlanner::refuse(const Shortage& shortage) const {
  // If one of them has no room alone, that is what is wrong.
  for (const JointModel& model : models_) make_plans(*model.config, *model.model, rates_);
  std::string lacks = fmt::format("memory.device: {} does not hold what {} models need at once",
                                  format_bytes(run_.memory.device), models_.size());
  if (shortage.host != kUnlimited) {
    lacks = fmt::format("memory.host: the state of {} models needs {}, more than {}", models_.size(),
                        format_bytes(shortage.host), format_bytes(*run_.memory.host));
  } else if (shortage.nvme != kUnlimited) {
    lacks = fmt::format("memory.nvme.size: the state of {} models needs {} there, more than {}",
                        models_.size(), format_bytes(shortage.nvme), format_bytes(run_.memory.nvme_size));
  }
  throw ConfigError(lacks + "; give it more, or train fewer models at once");
}

}  // namespace strata
