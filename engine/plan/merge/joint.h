// The plan of several models that are trained at once: one program of a round, which has a step of each, with
// one place for every buffer within the budgets that they share. If models have stages, ranks have programs
// of several stage sets (stage_sets.h), and their plans are made together. When one ends, the others are
// planned anew within the memory that there is, with their state where it is.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/plan/merge/model_to_plan.h"
#include "engine/plan/merge/stage_sets.h"
#include "engine/plan/merge/turn_schedule.h"
#include "engine/plan/passes/merge.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/place/plan.h"

namespace strata {

class JointPlanner {
 public:
  /// Throws ConfigError if their meshes do not go together. REQUIRES: they have the same ranks, and no
  /// asynchronous schedule.
  JointPlanner(std::vector<ModelToPlan> models, const MachineRates& rates);

  /// A plan for each stage set, for the models that have steps left, in the order that is fastest by its
  /// timeline, or in `order`. Plans after the first leave state where the first has put it, and take no more
  /// memory. Throws ConfigError if the budgets do not hold the first.
  std::vector<Plan> plan(const std::vector<std::int64_t>& remaining_steps, const std::string& order = {});
  /// The same, or nothing if no such plan is found.
  std::optional<std::vector<Plan>> find(const std::vector<std::int64_t>& remaining_steps,
                                        const std::string& order = {});
  /// The number of a rank's stage set.
  std::size_t stage_set_of(std::int64_t rank) const {
    return strata::stage_set_of(rank, meshes_, stage_sets_);
  }

 private:
  /// What each model takes part with, and when nothing hinders it what a round costs.
  struct Candidate {
    std::int64_t share = 1;                         ///< strategies were chosen for a `share`-th of the device
    std::vector<std::vector<Strategy>> strategies;  ///< by model and stage; none: it takes no part
    std::vector<std::vector<Program>> plain;        ///< by model and stage
    std::string order;
    std::vector<Program> merged;  ///< by stage set
    double seconds = 0;
  };
  struct Choice {
    std::vector<Placement> placements;  ///< by stage set
    Candidate candidate;
    double seconds = 0;
  };
  /// Why nothing was found.
  struct Hindrance {
    Shortage shortage;
    bool is_waiting = false;  ///< there was room for an order, and ranks would wait for one another in it

    void add(const Hindrance& other);
  };
  struct Attempt {
    const Candidate* candidate;
    double kept_share = 1;  ///< of the device, for what stays there from use to use
  };
  /// Role, model, unit, part, whether it is whole, first element.
  using PinKey = std::tuple<std::size_t, std::int32_t, std::int32_t, StateKey, bool, std::int64_t>;
  static PinKey pin_key_of(std::size_t stage_set, const StateEntry& place, std::int32_t first_unit);

  std::optional<std::vector<Plan>> find(const std::vector<std::int64_t>& remaining_steps,
                                        const std::string& order, Hindrance& hindrance);
  const std::optional<std::vector<Strategy>>& strategies_of(std::size_t model, std::int64_t share);
  std::vector<Candidate> candidates(const std::vector<std::int64_t>& remaining_steps,
                                    const std::string& order);
  void add_candidates(std::int64_t share, const std::vector<std::int64_t>& remaining_steps,
                      const std::string& order, std::vector<Candidate>& candidates);
  ModelTurns turns_of(const std::vector<Program>& plain, std::size_t model,
                      std::int64_t remaining_steps) const;
  bool merge(const TurnSchedule& schedule, Candidate& candidate) const;
  std::vector<std::optional<Choice>> place_all(const std::vector<Attempt>& attempts,
                                               Hindrance& hindrance) const;
  std::optional<Choice> place(const Candidate& candidate, double kept_share, Hindrance& hindrance) const;
  PlainInterludes interludes(std::size_t stage_set, const Candidate& candidate) const;
  std::vector<ModelProgram> parts(std::size_t stage_set,
                                  const std::vector<std::vector<Program>>& programs) const;
  std::vector<ModelProgram> parts(const std::vector<Program>& programs) const;
  ModelProgram part(std::size_t model, const Program* program) const;
  void pin_state(std::size_t stage_set, Program& program, std::span<const ModelProgram> parts) const;
  std::vector<Plan> finish(Choice best) const;
  Plan finish(std::size_t stage_set, Placement placement, const Candidate& candidate) const;
  void remember(const std::vector<Plan>& first, const Candidate& candidate);
  std::optional<Bytes> find_smallest_device() const;
  [[noreturn]] void refuse(const Hindrance& hindrance) const;

  std::vector<ModelToPlan> models_;
  MachineRates rates_;
  std::vector<Mesh> meshes_;                              ///< by model
  std::vector<std::vector<std::int32_t>> shared_frozen_;  ///< by model and unit (shared_frozen.h)
  std::vector<StageSet> stage_sets_;
  std::vector<MemoryRequest> memory_;  ///< by stage set: the models', which share it
  /// By stage. Models that differ in numbers alone, such as the learning rate, share what was found.
  std::map<std::pair<std::string, std::int64_t>, std::optional<std::vector<Strategy>>> strategies_;
  /// What state each model has, and where, as the first plan says.
  std::vector<std::vector<Strategy>> first_strategies_;
  std::int64_t first_share_ = 0;
  std::vector<RankGroup> groups_;
  std::map<PinKey, Pin> pins_;
};

}  // namespace strata
