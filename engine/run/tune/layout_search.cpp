#include "engine/run/tune/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "base/task_arena.h"
#include "engine/config/run_config.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/place/stage_plans.h"
#include "engine/run/tune/request_of_run.h"

namespace strata {
namespace {

/// Layouts that are planned at once, whatever the threads.
constexpr std::size_t kAtOnce = 8;
/// The instructions of passes that are planned in all, since these are what planning takes time for. The
/// number is for kFewRanks, and grows as the square root of the ranks, since there are more layouts then. One
/// layout has at most the share kMostOfOne.
constexpr double kMostInstructions = 320'000, kFewRanks = 64, kMostOfOne = 0.25;
/// Layouts that are planned at least, if they are no larger.
constexpr std::size_t kLeastLayouts = 16;
/// The number of best ways to share out the model for which other schedules, microbatches and ZeRO stages are
/// planned, too.
constexpr std::size_t kRefined = 3;
/// Steps with more are not planned whole.
constexpr std::int64_t kWhole = 20'000;

/// Microbatches of two shorter steps whose difference is what a microbatch takes; nothing if all are planned.
struct ShortSteps {
  std::int64_t fewer = 0, more = 0;
};

std::optional<ShortSteps> short_steps(const RunConfig& config, const LayoutCost& cost) {
  const std::int64_t stages = config.parallel.pipeline;
  if (config.microbatches() * cost.instructions <= kWhole) return std::nullopt;
  // A pipeline is full after as many microbatches as it has stages, or with backward passes in two after
  // twice as many; interleaved ones take whole rounds.
  const std::int64_t rounds = config.parallel.schedule == PipelineSchedule::zero_bubble ? 2 : 1;
  const ShortSteps steps =
      stages > 1 ? ShortSteps{rounds * stages, (rounds + 1) * stages} : ShortSteps{8, 12};
  if (steps.more >= config.microbatches()) return std::nullopt;
  return steps;
}

std::int64_t planned_instructions(const RunConfig& config, const LayoutCost& cost) {
  const std::optional<ShortSteps> steps = short_steps(config, cost);
  return cost.instructions * (steps ? steps->fewer + steps->more : config.microbatches());
}

PlannedLayout planned_step(RunConfig config, const Model& model, const MachineRates& rates,
                           std::int64_t microbatches) {
  config.train.batch = microbatches * config.train.microbatch * config.parallel.data;
  config.train.validate_every = 0;
  const std::optional<PlannedRun> run = find_run({model_to_plan({"", &config, &model})}, false, rates);
  if (!run) throw ConfigError("memory: the budgets do not hold it");
  PlannedLayout step = {.seconds = run->step.seconds, .peaks = run->peaks()};
  for (const RankProgram& rank : run->ranks) {
    const InstructionCosts costs(*rank.program, rates);
    EnumArray<Lane, double> busy;
    for (const Instruction& instruction : rank.program->instructions)
      busy[instruction.lane] += costs.seconds_of(instruction);
    if (busy[Lane::compute] >= step.busy[Lane::compute]) step.busy = busy;
  }
  return step;
}

/// A step of all microbatches, from two of fewer.
PlannedLayout planned_step(const RunConfig& config, const Model& model, const LayoutCost& cost,
                           const MachineRates& rates) {
  const std::optional<ShortSteps> steps = short_steps(config, cost);
  if (!steps) return planned_step(config, model, rates, config.microbatches());
  const PlannedLayout fewer = planned_step(config, model, rates, steps->fewer);
  PlannedLayout step = planned_step(config, model, rates, steps->more);
  const double times = static_cast<double>(config.microbatches() - steps->more) /
                       static_cast<double>(steps->more - steps->fewer);
  step.seconds += times * (step.seconds - fewer.seconds);
  for (const Lane lane : kLanes) step.busy[lane] += times * (step.busy[lane] - fewer.busy[lane]);
  return step;
}

/// Layouts that share out the model alike.
using MeshKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
MeshKey mesh_of(const RunLayout& layout) {
  return {layout.parallel.tensor, layout.parallel.context, layout.parallel.pipeline};
}

/// A layout with what is needed to plan it.
struct Candidate {
  LayoutTrial trial;
  RunConfig config;
  const Model* model;
  bool was_tried = false;

  double seconds() const { return trial.planned->seconds; }
};

void plan(Candidate& candidate, const MachineRates& rates) {
  try {
    candidate.trial.planned = planned_step(candidate.config, *candidate.model, candidate.trial.cost, rates);
  } catch (const ConfigError& error) {
    candidate.trial.refusal = error.what();
  }
}

/// With the budgets that would hold it, if they are what it lacks.
std::string why_refused(const Candidate& candidate, const MachineRates& rates) {
  try {
    make_plans(plan_request(candidate.config, *candidate.model), *candidate.model, rates);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return candidate.trial.refusal;
}

std::vector<Candidate> priced(const LayoutInput& input, LayoutCosts& costs) {
  std::vector<Candidate> candidates;
  std::vector<RunLayout> layouts = layouts_of(input.open, input.ranks, input.rates.links.node_ranks);
  for (RunLayout& layout : layouts) {
    input.on_planning(fmt::format("pricing layout {} of {}: {}", &layout - layouts.data() + 1, layouts.size(),
                                  describe(layout)));
    RunConfig config = with_layout(input.open, layout);
    const Model* const model = costs.model_of(config);
    if (model == nullptr) continue;
    input.set_budgets(config, *model);
    std::optional<LayoutCost> cost = costs.cost_of(config);
    if (!cost) continue;
    candidates.push_back({{std::move(layout), *cost}, std::move(config), model});
  }
  std::ranges::stable_sort(candidates, {}, [](const Candidate& one) { return one.trial.cost.guess(); });
  return candidates;
}

/// Plans the most promising candidates: first one of each mesh, then others of the best meshes, then all
/// others.
class Planning {
 public:
  Planning(std::vector<Candidate>& candidates, const LayoutInput& input)
      : candidates_(candidates),
        rates_(input.rates),
        on_planning_(input.on_planning),
        most_instructions_(static_cast<std::int64_t>(
            kMostInstructions * std::max(1.0, std::sqrt(static_cast<double>(input.ranks) / kFewRanks)))) {}

  /// Returns the shortest step; nothing if none could be planned.
  std::optional<double> run() {
    std::set<MeshKey> met;
    plan_those([&](const Candidate& one) { return met.insert(mesh_of(one.trial.layout)).second; },
               most_instructions_ / 2);
    const std::set<MeshKey> best = best_meshes();
    plan_those([&](const Candidate& one) { return best.contains(mesh_of(one.trial.layout)); },
               most_instructions_);
    const auto all = [](const Candidate&) { return true; };
    plan_those(all, most_instructions_);
    takes_large_ = !best_;
    plan_those(all, most_instructions_);
    return best_;
  }

 private:
  template <typename IsMeant>
  void plan_those(const IsMeant& is_meant, std::int64_t most_instructions) {
    std::vector<Candidate*> next;
    for (Candidate& candidate : candidates_) {
      if (layouts_ >= kLeastLayouts && instructions_ >= most_instructions) break;
      if (candidate.was_tried || (best_ && candidate.trial.cost.bound() >= *best_)) continue;
      const std::int64_t instructions = planned_instructions(candidate.config, candidate.trial.cost);
      const bool is_large =
          static_cast<double>(instructions) > kMostOfOne * static_cast<double>(most_instructions_);
      if ((is_large && !takes_large_) || !is_meant(candidate)) continue;
      instructions_ += instructions;
      ++layouts_;
      candidate.was_tried = true;
      next.push_back(&candidate);
      if (next.size() == kAtOnce) plan_all(next);
    }
    plan_all(next);
  }

  void plan_all(std::vector<Candidate*>& next) {
    for_ranges(std::ssize(next), 1, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) {
        Candidate& candidate = *nth(next, i);
        on_planning_(describe_next(candidate));
        plan(candidate, rates_);
      }
    });
    for (const Candidate* one : next) {
      if (!one->trial.planned) continue;
      best_ = std::min(best_.value_or(one->seconds()), one->seconds());
      double& of_mesh = by_mesh_.try_emplace(mesh_of(one->trial.layout), one->seconds()).first->second;
      of_mesh = std::min(of_mesh, one->seconds());
    }
    next.clear();
  }

  /// `best_` is that of the layouts before these: the arena's threads leave it alone.
  std::string describe_next(const Candidate& candidate) {
    return fmt::format("planning layout {}, of at most {}: {}{}", ++begun_, candidates_.size(),
                       describe(candidate.trial.layout),
                       best_ ? fmt::format("; the shortest step so far is {:.3g} s", *best_) : "");
  }

  std::set<MeshKey> best_meshes() const {
    std::vector<std::pair<double, MeshKey>> meshes;
    for (const auto& [mesh, seconds] : by_mesh_) meshes.emplace_back(seconds, mesh);
    std::ranges::sort(meshes);
    std::set<MeshKey> best;
    for (const auto& [seconds, mesh] : meshes) {
      if (best.size() < kRefined) best.insert(mesh);
    }
    return best;
  }

  std::vector<Candidate>& candidates_;
  const MachineRates& rates_;
  const OnPlanning& on_planning_;
  std::int64_t most_instructions_;
  std::optional<double> best_;
  std::map<MeshKey, double> by_mesh_;
  std::int64_t instructions_ = 0;
  std::size_t layouts_ = 0;
  std::atomic<std::size_t> begun_ = 0;
  bool takes_large_ = false;  ///< if no smaller one can be planned
};

/// Steps that are no more than so much longer than the shortest are as good as that by the error of rates.
constexpr double kAlike = 1.01;

/// The layout with the least of these is taken among those whose steps are alike: waiting for other ranks,
/// and each microbatch, cost a little that no rate knows. Exchanges count in parts of the step.
std::pair<std::int64_t, std::int64_t> unknown_costs(const LayoutTrial& one, const LayoutInput& input) {
  constexpr double kPart = 0.002;
  return {std::llround(one.planned->exchanging() / (kPart * one.planned->seconds)),
          with_layout(input.open, one.layout).microbatches()};
}

}  // namespace

LayoutSearch search_layouts(const LayoutInput& input) {
  LayoutCosts costs(input.rates, input.architecture);
  std::vector<Candidate> candidates = priced(input, costs);
  if (candidates.empty()) {
    throw ConfigError(
        fmt::format("plan.search: no layout of {} rank{} fits this model and train.batch {}; take another "
                    "number of ranks, or "
                    "leave more of parallel and train.microbatch open",
                    input.ranks, input.ranks == 1 ? "" : "s", input.open.train.batch));
  }
  const std::optional<double> best = Planning(candidates, input).run();
  if (!best) {
    const auto tried = std::ranges::find_if(candidates, &Candidate::was_tried);
    throw ConfigError(
        fmt::format("plan.search: none of the layouts tried can be planned; the most promising, {}: {}",
                    describe(tried->trial.layout), why_refused(*tried, input.rates)));
  }
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Candidate& one) { return one.trial.planned.has_value(); });
  LayoutSearch search;
  for (Candidate& one : candidates) {
    if (one.trial.planned) {
      ++search.planned;
    } else if (one.was_tried) {
      ++search.refused;
    } else {
      ++(one.trial.cost.bound() >= *best ? search.beaten : search.left_out);
    }
    search.trials.push_back(std::move(one.trial));
  }
  const auto first = search.trials.begin(), last = first + static_cast<std::ptrdiff_t>(search.planned);
  std::stable_sort(first, last, [](const LayoutTrial& a, const LayoutTrial& b) {
    return a.planned->seconds < b.planned->seconds;
  });
  const auto as_short = std::find_if(first, last, [&](const LayoutTrial& one) {
    return one.planned->seconds > kAlike * first->planned->seconds;
  });
  const auto chosen = std::min_element(first, as_short, [&](const LayoutTrial& a, const LayoutTrial& b) {
    return unknown_costs(a, input) < unknown_costs(b, input);
  });
  std::rotate(first, chosen, std::next(chosen));
  return search;
}

}  // namespace strata
