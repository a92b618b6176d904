#include "engine/plan/merge/turn_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/plan/merge/turn_sequence.h"

namespace strata {
namespace {

/// A number for each model's turns: where two can be done, the one with the lower number is.
using Ranking = std::vector<std::vector<std::size_t>>;

/// Does turns one after another, those first that can begin first.
class ListScheduling {
 public:
  ListScheduling(const std::vector<ModelTurns>& models, std::span<const StageSet> stage_sets)
      : models_(models), stage_sets_(stage_sets), free_(stage_sets.size(), 0.0) {
    for (const ModelTurns& model : models) {
      OfModel& of = of_.emplace_back();
      const std::size_t stages = model.turns.empty() ? 0 : model.turns.front().stages.size();
      of.turns_of_stage.resize(stages);
      of.next.resize(stages, 0);
      of.ends.resize(model.turns.size(), std::vector<double>(stages, 0.0));
      for (std::size_t t = 0; t < model.turns.size(); ++t) {
        for (std::size_t stage = 0; stage < stages; ++stage)
          if (model.turns[t].stages[stage].turns > 0) of.turns_of_stage[stage].push_back(t);
      }
    }
  }

  /// Model and turn, in the order in which they are done. If bubbles are not filled, each waits for all that
  /// have lower numbers.
  std::vector<std::pair<std::size_t, std::size_t>> run(const Ranking& ranking, bool fills_bubbles) {
    std::vector<std::pair<std::size_t, std::size_t>> done;
    for (;;) {
      std::tuple best = {std::numeric_limits<double>::infinity(), SIZE_MAX, std::size_t{0}, std::size_t{0}};
      for (std::size_t m = 0; m < models_.size(); ++m) {
        for (std::size_t stage = 0; stage < of_[m].next.size(); ++stage) {
          const std::size_t t = next(m, stage);
          if (t == SIZE_MAX || !is_ready(m, t)) continue;
          best = std::min(best, std::tuple(fills_bubbles ? start(m, t) : 0, ranking[m][t], m, t));
        }
      }
      const auto [when, rank, m, t] = best;
      if (rank == SIZE_MAX) return done;
      perform(m, t, start(m, t));
      done.emplace_back(m, t);
    }
  }

 private:
  struct OfModel {
    std::vector<std::vector<std::size_t>> turns_of_stage;
    std::vector<std::size_t> next;          ///< of each stage, among its turns
    std::vector<std::vector<double>> ends;  ///< of each turn on each stage
  };

  const JointTurn& turn(std::size_t m, std::size_t t) const { return models_[m].turns[t]; }

  /// SIZE_MAX: none is left.
  std::size_t next(std::size_t m, std::size_t stage) const {
    const std::vector<std::size_t>& turns = of_[m].turns_of_stage[stage];
    const std::size_t next = of_[m].next[stage];
    return next == turns.size() ? SIZE_MAX : turns[next];
  }

  /// Whether it is the next on all of its stages.
  bool is_ready(std::size_t m, std::size_t t) const {
    for (std::size_t stage = 0; stage < of_[m].next.size(); ++stage)
      if (turn(m, t).stages[stage].turns > 0 && next(m, stage) != t) return false;
    return true;
  }

  double start(std::size_t m, std::size_t t) const {
    double start = 0;
    for (std::size_t r = 0; r < stage_sets_.size(); ++r) {
      const std::int32_t stage = stage_sets_[r].stages[m];
      const JointTurn::OfStage& of = nth(turn(m, t).stages, stage);
      if (of.turns == 0) continue;
      for (const std::int32_t made : of.after) start = std::max(start, nth(nth(of_[m].ends, made), stage));
      // What goes from stage to stage does so while the device computes.
      if (of.seconds > 0 || turn(m, t).is_of_one_stage()) start = std::max(start, free_[r]);
    }
    return start;
  }

  void perform(std::size_t m, std::size_t t, double start) {
    for (std::size_t stage = 0; stage < of_[m].next.size(); ++stage) {
      const JointTurn::OfStage& of = turn(m, t).stages[stage];
      if (of.turns == 0) continue;
      of_[m].ends[t][stage] = start + of.seconds;
      ++of_[m].next[stage];
    }
    for (std::size_t r = 0; r < stage_sets_.size(); ++r) {
      const JointTurn::OfStage& of = nth(turn(m, t).stages, stage_sets_[r].stages[m]);
      if (of.turns > 0 && of.seconds > 0) free_[r] = start + of.seconds;
    }
  }

  const std::vector<ModelTurns>& models_;
  std::span<const StageSet> stage_sets_;
  std::vector<OfModel> of_;
  std::vector<double> free_;  ///< by stage set: when the device has done what it was given
};

/// A model's turns in the order in which its stages do them if it is alone.
std::vector<std::vector<std::size_t>> orders_alone(const std::vector<ModelTurns>& models,
                                                   std::span<const StageSet> stage_sets) {
  std::vector<std::vector<std::size_t>> orders;
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::vector<ModelTurns> alone(models.size());
    alone[m] = models[m];
    Ranking as_listed(models.size());
    as_listed[m].resize(models[m].turns.size());
    std::iota(as_listed[m].begin(), as_listed[m].end(), std::size_t{0});
    orders.emplace_back();
    for (const auto& [model, turn] : ListScheduling(alone, stage_sets).run(as_listed, true))
      orders.back().push_back(turn);
  }
  return orders;
}

/// Turns of one pass stand together.
TurnsOfModel turns_of(const ModelTurns& model, const std::vector<std::size_t>& order) {
  TurnsOfModel turns = {.seconds = {}, .visit = {}, .remaining_steps = model.remaining_steps};
  std::pair<std::int32_t, Operation> latest = {-1, Operation::forward};
  std::int32_t visit = -1;
  for (const std::size_t t : order) {
    const JointTurn& turn = model.turns[t];
    const std::pair<std::int32_t, Operation> pass = turn.pass.value_or(latest);
    if (pass != latest || visit < 0) ++visit;
    latest = pass;
    turns.seconds.push_back(turn.seconds());
    turns.visit.push_back(visit);
  }
  return turns;
}

Ranking ranking_of(const TurnSequence& order, const std::vector<std::vector<std::size_t>>& orders_alone) {
  Ranking ranking;
  ranking.reserve(orders_alone.size());
  for (const std::vector<std::size_t>& turns : orders_alone) ranking.emplace_back(turns.size());
  std::vector<std::size_t> next(ranking.size(), 0);
  for (std::size_t place = 0; place < order.models.size(); ++place) {
    const std::int32_t m = order.models[place];
    nth(ranking, m)[nth(orders_alone, m)[nth(next, m)++]] = place;
  }
  return ranking;
}

/// A turn of the order is as many of the plain program's.
std::vector<std::size_t> begins_of(const TurnSequence& order, const std::vector<ModelTurns>& models,
                                   const std::vector<std::vector<std::size_t>>& orders_alone) {
  std::vector<std::size_t> begins(models.size(), 0);
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (std::size_t t = 0; t < order.begins[m]; ++t)
      begins[m] += static_cast<std::size_t>(models[m].turns[orders_alone[m][t]].stages.front().turns);
  }
  return begins;
}

}  // namespace

std::vector<TurnSchedule> turn_schedules(const std::vector<ModelTurns>& models,
                                         std::span<const StageSet> stage_sets) {
  const std::vector<std::vector<std::size_t>> alone = orders_alone(models, stage_sets);
  std::vector<TurnSchedule> schedules;
  const auto add = [&](const TurnSequence& order, bool fills_bubbles) {
    TurnSchedule& schedule = schedules.emplace_back();
    schedule.name = order.name + (fills_bubbles ? ", bubbles filled" : "");
    schedule.models.resize(stage_sets.size());
    schedule.begins = begins_of(order, models, alone);
    for (const auto& [m, t] :
         ListScheduling(models, stage_sets).run(ranking_of(order, alone), fills_bubbles)) {
      for (std::size_t r = 0; r < stage_sets.size(); ++r) {
        const std::int32_t stage = stage_sets[r].stages[m];
        const auto count = static_cast<std::size_t>(nth(models[m].turns[t].stages, stage).turns);
        schedule.models[r].insert(schedule.models[r].end(), count, static_cast<std::int32_t>(m));
      }
    }
  };
  std::vector<TurnsOfModel> turns;
  turns.reserve(models.size());
  TurnSequence step_after_step{"step after step", {}, std::vector<std::size_t>(models.size(), 0)};
  for (std::size_t m = 0; m < models.size(); ++m) {
    turns.push_back(turns_of(models[m], alone[m]));
    step_after_step.models.insert(step_after_step.models.end(), alone[m].size(),
                                  static_cast<std::int32_t>(m));
  }
  const bool has_bubbles = stage_sets.size() > 1;
  if (has_bubbles) add(step_after_step, false);
  // Stages of a model would have to begin their rounds with what meets.
  const RoundEnds ends = has_bubbles ? RoundEnds::between_steps : RoundEnds::within_steps;
  for (const TurnSequence& order : turn_sequences(turns, ends)) add(order, has_bubbles);
  return schedules;
}

}  // namespace strata
