#include "engine/plan/merge/joint.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/merge/joint_round.h"
#include "engine/plan/merge/shared_frozen.h"
#include "engine/plan/place/finish.h"
#include "engine/plan/place/refusal.h"
#include "engine/plan/place/search.h"
#include "engine/plan/program/rank_tasks.h"

namespace strata {
namespace {

double computing_seconds(const Program& program, const MachineRates& rates) {
  const InstructionCosts costs(program, rates);
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.lane == Lane::compute) seconds += costs.seconds_of(instruction);
  }
  return seconds;
}

/// The best of an order counts.
void note(std::vector<ComparedSequence>& compared, const std::string& order, double seconds) {
  const auto found = std::ranges::find(compared, order, &ComparedSequence::name);
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

JointPlanner::JointPlanner(std::vector<ModelToPlan> models, const MachineRates& rates)
    : models_(std::move(models)), rates_(rates) {
  for (const ModelToPlan& model : models_) meshes_.push_back(model.request.strategy.mesh);
  stage_sets_ = stage_sets_of(meshes_);
  shared_frozen_ = find_shared_frozen(models_);
  memory_.assign(stage_sets_.size(), models_.front().request.memory);
}

/// The cheapest for the model alone with a share of the device, and with all that is beyond it on the host,
/// which decides about places only.
const std::optional<std::vector<Strategy>>& JointPlanner::strategies_of(std::size_t model,
                                                                        std::int64_t share) {
  const ModelToPlan& of = models_[model];
  const auto [found, is_new] = strategies_.try_emplace({of.shape, share});
  if (!is_new) return found->second;
  PlanRequest request = of.request;
  if (request.memory.device != kUnlimited) request.memory.device /= share;
  if (request.memory.host) request.memory.host = kUnlimited;
  request.leave_out_drives();
  std::vector<Strategy> strategies;
  for (CheapestSearch& search : searches_of(request, *of.model, rates_)) {
    Shortage shortage;
    std::optional<Placement> placement = search.find(request.memory, shortage);
    if (!placement) return found->second;
    strategies.push_back(std::move(placement->strategy));
  }
  found->second = std::move(strategies);
  return found->second;
}

ModelTurns JointPlanner::turns_of(const std::vector<Program>& plain, std::size_t model,
                                  std::int64_t remaining_steps) const {
  std::vector<RankProgram> stages;
  stages.reserve(plain.size());
  for (const Program& program : plain) {
    const std::int64_t rank = std::ssize(stages) * meshes_[model].tensor;
    stages.push_back({rank, &program, nullptr});
  }
  return {joint_turns(stages, rates_), remaining_steps};
}

void JointPlanner::add_candidates(std::int64_t share, const std::vector<std::int64_t>& remaining_steps,
                                  const std::string& only, std::vector<Candidate>& candidates) {
  const auto active = std::ranges::count_if(remaining_steps, [](std::int64_t steps) { return steps > 0; });
  Candidate candidate;
  candidate.share = share;
  candidate.strategies.resize(models_.size());
  candidate.plain.resize(models_.size());
  std::vector<ModelTurns> turns(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (remaining_steps[m] == 0) continue;
    const std::optional<std::vector<Strategy>>& strategies = strategies_of(m, share);
    if (!strategies) return;
    // The state of all models is there all the time, so it is on the device only if there is room for each's.
    const bool stays = share == active || all_state_on_device(models_[m].request.memory);
    for (const Strategy& alone : *strategies) {
      Strategy strategy = stays ? alone : with_device_state(alone, 0);
      const std::size_t stage = candidate.strategies[m].size();
      if (!first_strategies_.empty()) strategy.state = first_strategies_[m][stage].state;
      candidate.plain[m].push_back(leanest_training(*models_[m].model, strategy, models_[m].request.memory));
      candidate.strategies[m].push_back(std::move(strategy));
    }
    turns[m] = turns_of(candidate.plain[m], m, remaining_steps[m]);
  }
  const auto is_same = [&](const Candidate& other) { return other.plain == candidate.plain; };
  if (std::ranges::any_of(candidates, is_same)) return;  // for another share
  for (const TurnSchedule& schedule : turn_schedules(turns, stage_sets_)) {
    if (!only.empty() && schedule.name != only) continue;
    Candidate& added = candidates.emplace_back(candidate);
    if (!merge(schedule, added)) candidates.pop_back();
  }
}

/// False if the device is too small for some stage set's.
bool JointPlanner::merge(const TurnSchedule& schedule, Candidate& candidate) const {
  candidate.order = schedule.name;
  std::vector<std::vector<Program>> rounds = candidate.plain;
  for (std::size_t m = 0; m < rounds.size(); ++m) {
    for (Program& of_stage : rounds[m]) of_stage = begin_round_with(of_stage, schedule.begins[m]);
  }
  for (std::size_t stage_set = 0; stage_set < stage_sets_.size(); ++stage_set) {
    const std::vector<ModelProgram> of_models = parts(stage_set, rounds);
    Program& merged = candidate.merged.emplace_back(strata::merge(
        of_models, schedule.models[stage_set], groups_.empty() ? groups_of(of_models) : groups_));
    pin_state(stage_set, merged, of_models);
    const std::optional<StepCost> cost = step_cost(merged, memory_[stage_set].device, rates_);
    if (!cost) return false;
    candidate.seconds = std::max(candidate.seconds, cost->seconds);
  }
  return true;
}

ModelProgram JointPlanner::part(std::size_t model, const Program* program) const {
  return {models_[model].name, program, shared_frozen_[model]};
}

/// The parts of a stage set's programs. A program without buffers takes no part.
std::vector<ModelProgram> JointPlanner::parts(const std::vector<Program>& programs) const {
  std::vector<ModelProgram> parts;
  parts.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m)
    parts.push_back(part(m, programs[m].buffers.empty() ? nullptr : &programs[m]));
  return parts;
}

/// By programs of all stages.
std::vector<ModelProgram> JointPlanner::parts(std::size_t stage_set,
                                              const std::vector<std::vector<Program>>& programs) const {
  std::vector<ModelProgram> parts;
  parts.reserve(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const std::int32_t stage = stage_sets_[stage_set].stages[m];
    parts.push_back(part(m, programs[m].empty() ? nullptr : &nth(programs[m], stage)));
  }
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
PlainInterludes JointPlanner::interludes(std::size_t stage_set, const Candidate& candidate) const {
  const auto stage_of = [&](std::size_t m) {
    return static_cast<std::size_t>(stage_sets_[stage_set].stages[m]);
  };
  std::vector<PlainInterludes> of_models(models_.size());
  OfInterludes<std::size_t> forms;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (candidate.plain[m].empty()) continue;
    of_models[m] =
        plain_interludes(*models_[m].model, candidate.strategies[m][stage_of(m)], models_[m].request.memory);
    for (const auto& [interlude, programs] : of_models[m])
      forms[interlude] = std::max(forms[interlude], programs.size());
  }
  PlainInterludes merged;
  for (const auto& [interlude, count] : forms) {
    for (std::size_t form = 0; form < count; ++form) {
      std::vector<Program> programs(models_.size());
      std::vector<std::int32_t> order;
      for (std::size_t m = 0; m < models_.size(); ++m) {
        if (candidate.plain[m].empty()) continue;
        const auto own = of_models[m].find(interlude);
        programs[m] = own == of_models[m].end() ? idle(candidate.plain[m][stage_of(m)])
                                                : own->second[std::min(form, own->second.size() - 1)];
        order.insert(order.end(), find_turns(programs[m]).size(), static_cast<std::int32_t>(m));
      }
      const std::vector<ModelProgram> of_stage_set = parts(programs);
      Program joined = strata::merge(of_stage_set, order, candidate.merged[stage_set].groups);
      pin_state(stage_set, joined, of_stage_set);
      merged[interlude].push_back(std::move(joined));
    }
  }
  return merged;
}

std::vector<Plan> JointPlanner::plan(const std::vector<std::int64_t>& remaining_steps,
                                     const std::string& order) {
  Hindrance hindrance;
  std::optional<std::vector<Plan>> plans = find(remaining_steps, order, hindrance);
  if (!plans) refuse(hindrance);
  return std::move(*plans);
}

std::optional<std::vector<Plan>> JointPlanner::find(const std::vector<std::int64_t>& remaining_steps,
                                                    const std::string& order) {
  Hindrance hindrance;
  return find(remaining_steps, order, hindrance);
}

std::optional<std::vector<Plan>> JointPlanner::find(const std::vector<std::int64_t>& remaining_steps,
                                                    const std::string& order, Hindrance& hindrance) {
  constexpr double kGain = 0.99;  // less is within the error of rates
  constexpr std::size_t kCheapest = 4, kMostRefined = 8;
  std::optional<Choice> best;
  std::vector<ComparedSequence> compared;
  std::vector<std::pair<double, const Candidate*>> placed;
  const auto try_all = [&](const std::vector<Attempt>& attempts) {
    std::vector<std::optional<Choice>> choices = place_all(attempts, hindrance);
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      std::optional<Choice>& choice = choices[i];
      if (!choice) continue;
      note(compared, attempts[i].candidate->order, choice->seconds);
      placed.emplace_back(choice->seconds, attempts[i].candidate);
      if (!best || choice->seconds < kGain * best->seconds) best = std::move(choice);
    }
  };
  const std::vector<Candidate> all = candidates(remaining_steps, order);
  std::vector<bool> is_tried(all.size(), false);
  // The cheapest of each order that has none with room yet, and the cheapest of all.
  const auto find_untried = [&] {
    std::vector<Attempt> attempts;
    std::set<std::string> names;
    for (const ComparedSequence& one : compared) names.insert(one.name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_tried[i] || (!names.insert(all[i].order).second && i >= kCheapest)) continue;
      is_tried[i] = true;
      attempts.push_back({&all[i]});
    }
    return attempts;
  };
  std::vector<Attempt> attempts = find_untried();
  for (; !attempts.empty(); attempts = find_untried()) try_all(attempts);
  // Keeping less leaves copies more room, which can make the fastest of them faster yet.
  std::ranges::stable_sort(placed, {}, &std::pair<double, const Candidate*>::first);
  placed.resize(std::min(placed.size(), kMostRefined));
  for (const auto& [seconds, candidate] : placed) {
    for (const double kept_share : {0.6, 0.45}) attempts.push_back({candidate, kept_share});
  }
  try_all(attempts);
  if (!best) return std::nullopt;
  for (ComparedSequence& order : compared) order.is_chosen = order.name == best->candidate.order;
  const Candidate candidate = best->candidate;
  const double seconds = best->seconds;
  std::vector<Plan> plans = finish(std::move(*best));
  if (first_strategies_.empty()) remember(plans, candidate);
  for (Plan& plan : plans) {
    plan.merged->sequences = compared;
    plan.merged->round_seconds = seconds;
  }
  return plans;
}

void JointPlanner::Hindrance::add(const Hindrance& other) {
  shortage.host = std::min(shortage.host, other.shortage.host);
  shortage.nvme = std::min(shortage.nvme, other.shortage.nvme);
  is_waiting |= other.is_waiting;
}

/// Each by itself, on all cores.
std::vector<std::optional<JointPlanner::Choice>> JointPlanner::place_all(const std::vector<Attempt>& attempts,
                                                                         Hindrance& hindrance) const {
  std::vector<std::optional<Choice>> choices(attempts.size());
  std::vector<Hindrance> hindrances(attempts.size());
  for_ranges(std::ssize(attempts), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const Attempt& attempt = nth(attempts, i);
      nth(choices, i) = place(*attempt.candidate, attempt.kept_share, nth(hindrances, i));
    }
  });
  for (const Hindrance& one : hindrances) hindrance.add(one);
  return choices;
}

/// Nothing if some stage set has no room, or if ranks that do it would wait in a circle.
std::optional<JointPlanner::Choice> JointPlanner::place(const Candidate& candidate, double kept_share,
                                                        Hindrance& hindrance) const {
  Choice choice = {.placements = {}, .candidate = candidate};
  for (std::size_t stage_set = 0; stage_set < stage_sets_.size(); ++stage_set) {
    std::optional<Placement> placement =
        place_plain(candidate.merged[stage_set], interludes(stage_set, candidate), memory_[stage_set],
                    kept_share, hindrance.shortage);
    if (!placement) return std::nullopt;
    choice.placements.push_back(std::move(*placement));
  }
  const JointRound round(stage_sets_, choice.placements);
  if (!round.meets()) {
    hindrance.is_waiting = true;
    return std::nullopt;
  }
  choice.seconds = std::max(candidate.seconds, round.seconds(rates_));
  return choice;
}

/// Units are numbered model after model, of those that take part.
JointPlanner::PinKey JointPlanner::pin_key_of(std::size_t stage_set, const StateEntry& place,
                                              std::int32_t first_unit) {
  return {stage_set,  place.model,    place.unit < 0 ? -1 : place.unit - first_unit,
          place.part, place.is_whole, place.piece.first};
}

void JointPlanner::pin_state(std::size_t stage_set, Program& program,
                             std::span<const ModelProgram> parts) const {
  if (pins_.empty()) return;
  for (const StateEntry& place : program.state) {
    const auto model = static_cast<std::size_t>(place.model);
    program.buffer(place.buffer).pin = pins_.at(pin_key_of(stage_set, place, first_unit(parts, model)));
  }
}

void JointPlanner::remember(const std::vector<Plan>& first, const Candidate& candidate) {
  first_strategies_ = candidate.strategies;
  first_share_ = candidate.share;
  groups_ = first.front().training().program.groups;
  for (std::size_t stage_set = 0; stage_set < stage_sets_.size(); ++stage_set) {
    const Plan& plan = first[stage_set];
    for (std::size_t m = 0; m < plan.models.size(); ++m) {
      if (!plan.models[m]) continue;
      const Program& own = plan.models[m]->training.program;
      for (StateEntry place : own.state) {
        place.model = static_cast<std::int32_t>(m);
        const Buffer& buffer = own.buffer(place.buffer);
        pins_[pin_key_of(stage_set, place, 0)] = {buffer.tier, buffer.offset};
      }
    }
    MemoryRequest& memory = memory_[stage_set];
    memory.device = plan.arena_bytes(Tier::device);
    if (memory.host) memory.host = plan.arena_bytes(Tier::host);
    if (memory.nvme) memory.nvme = plan.arena_bytes(Tier::nvme);
  }
}

std::vector<Plan> JointPlanner::finish(Choice best) const {
  std::set<Channel> channels;
  std::vector<Plan> plans;
  plans.reserve(stage_sets_.size());
  for (std::size_t stage_set = 0; stage_set < stage_sets_.size(); ++stage_set) {
    const Placement& placement = best.placements[stage_set];
    add_channels(placement.training, stage_sets_[stage_set].rank, channels);
    for (const auto& [interlude, program] : placement.interludes)
      add_channels(program, stage_sets_[stage_set].rank, channels);
    plans.push_back(finish(stage_set, std::move(best.placements[stage_set]), best.candidate));
  }
  for (Plan& plan : plans) plan.channels = channels;
  return plans;
}

Plan JointPlanner::finish(std::size_t stage_set, Placement placement, const Candidate& candidate) const {
  Plan plan;
  plan.rank = stage_sets_[stage_set].rank;
  const MemoryRequest& memory = memory_[stage_set];
  plan.budgets = memory.budgets();
  const std::vector<ModelProgram> of_models = parts(stage_set, candidate.plain);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    plan.models.emplace_back();
    if (of_models[m].plain == nullptr) continue;
    const std::int32_t stage = stage_sets_[stage_set].stages[m];
    Placement part{nth(candidate.strategies[m], stage), part_of(placement.training, of_models, m)};
    for (const auto& [interlude, program] : placement.interludes) {
      if (!has(part.strategy, interlude)) continue;
      Program outline = lower_interlude(interlude, *models_[m].model, part.strategy).outline();
      std::vector<ModelProgram> of_interlude = of_models;
      of_interlude[m].plain = &outline;
      part.interludes[interlude] = part_of(program, of_interlude, m);
    }
    plan.models[m] = strata::finish(std::move(part), models_[m].request.memory, *models_[m].model);
  }
  MergedPrograms& merged = plan.merged.emplace();
  merged.computing_seconds = computing_seconds(placement.training, rates_);
  merged.training = strata::finish(std::move(placement.training), memory);
  for (auto& [interlude, program] : placement.interludes)
    merged.interludes.emplace(interlude, strata::finish(std::move(program), memory));
  return plan;
}

}  // namespace strata
