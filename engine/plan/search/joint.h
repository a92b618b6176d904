// The plan of several models that are trained at once: one program of a round, which has a step of each, with
// one place for every buffer within the budgets that they share. When one ends, the others are planned anew
// within the memory that there is, with their state where it is.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/plan/passes/merge.h"
#include "engine/plan/search/placement.h"
#include "engine/plan/search/planner.h"
#include "engine/plan/search/turn_order.h"

namespace strata {

/// REQUIRES: what it refers to outlives its planner. The configs' sections memory, device and plan are equal.
struct JointModel {
  std::string name;
  const RunConfig* config = nullptr;
  const Model* model = nullptr;
};

/// An order of turns that was compared with others.
struct ComparedOrder {
  std::string name;
  double seconds = 0;  ///< of a round, by its timeline
  bool is_chosen = false;
};

struct JointPlan {
  PlannedProgram training;
  std::optional<PlannedProgram> validation;
  TierBudgets budgets = {kUnlimited, kUnlimited, 0};
  std::vector<std::optional<Plan>> models;  ///< by number: each one's part, or nothing
  std::set<Channel> channels;               ///< in which programs of any stage exchange values
  std::vector<ComparedOrder> orders;
  double round_seconds = 0;      ///< by the timeline
  double computing_seconds = 0;  ///< of a round: no order takes less

  /// What the tier must hold: the larger of both programs.
  Bytes arena_bytes(Tier tier) const;
};

/// Throws ConfigError if a model is to be trained in the stages of a pipeline, which several are not yet.
void refuse_stages(const std::string& name, const RunConfig& config);

class JointPlanner {
 public:
  /// Throws ConfigError if a model is too large to plan, or is to be trained in stages.
  JointPlanner(std::vector<JointModel> models, const MachineRates& rates);

  /// For the models of which steps remain, in the order that is fastest by its timeline, or in `order`. Plans
  /// after the first leave state where the first has put it, and take no more memory. Throws ConfigError if
  /// the budgets do not hold the first.
  JointPlan plan(const std::vector<std::int64_t>& remaining_steps, const std::string& order = {});
  /// For some of these models, whose state stays where it is, in no more memory than the first plan takes;
  /// nothing if no such plan is found.
  std::optional<JointPlan> replan(const std::vector<std::int64_t>& remaining_steps,
                                  const std::string& order = {});

 private:
  /// What each model takes part with, and when nothing hinders it what a round costs.
  struct Candidate {
    std::int64_t share = 1;  ///< so much of the device each strategy was chosen for: one of so many parts
    std::vector<Strategy> strategies;
    std::vector<Program> plain;
    TurnOrder order;
    Program merged;
    double seconds = 0;
  };
  struct Choice {
    Placement placement;
    Candidate candidate;
  };
  /// Model, unit, part, whether it is whole, first element.
  using StateKey = std::tuple<std::int32_t, std::int32_t, StatePart, bool, std::int64_t>;
  static StateKey key_of(const StatePlace& place, std::int32_t first_unit);

  std::optional<JointPlan> find(const std::vector<std::int64_t>& remaining_steps, const std::string& order,
                                Shortage& shortage);
  std::optional<Strategy> strategy_of(std::size_t model, std::int64_t share);
  std::vector<Candidate> candidates(const std::vector<std::int64_t>& remaining_steps,
                                    const std::string& order);
  void add_candidates(std::int64_t share, const std::vector<std::int64_t>& remaining_steps,
                      const std::string& order, std::vector<Candidate>& candidates);
  std::vector<Program> validations(const Candidate& candidate) const;
  std::vector<ModelProgram> parts(const std::vector<Program>& programs) const;
  void pin_state(Program& program, const std::vector<Program>& plain) const;
  JointPlan finish(Choice best) const;
  void remember(const JointPlan& first, const Candidate& candidate);
  [[noreturn]] void refuse(const Shortage& shortage) const;

  std::vector<JointModel> models_;
  RunConfig run_;  ///< the first's, whose budgets are all that there is
  MachineRates rates_;
  /// Models that differ in numbers alone, such as the learning rate, share what was found.
  std::map<std::pair<std::string, std::int64_t>, std::optional<Strategy>> strategies_;
  /// What state each model has, and where, as the first plan says.
  std::vector<Strategy> first_strategies_;
  std::int64_t first_share_ = 0;
  std::vector<RankGroup> groups_;
  std::map<StateKey, Pin> pins_;
};

}  // namespace strata
