// What a request leaves open: which order, which units save their activations, and what lives where.
#pragma once

#include <optional>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/place/placement.h"

namespace strata {

/// Orders, what is saved and delayed, and places, the cheapest by `rates`. Budgets of tiers beyond the device
/// decide about places only, so with others it is asked again at little cost.
class CheapestSearch {
 public:
  /// For a stage of the pipeline. REQUIRES: the model outlives this.
  CheapestSearch(const PlanRequest& request, const Model& model, const MachineRates& rates,
                 std::int32_t stage = 0);

  /// The cheapest placement that holds all budgets. Nothing if there is none; then `shortage` says what tiers
  /// beyond the device lack, if it is they. REQUIRES: `memory` is the request's but for their budgets.
  std::optional<Placement> find(const MemoryRequest& memory, Shortage& shortage);

  /// What find() finds, or what it finds with smaller budgets of the device, if a step is shorter so: what
  /// fits less fits more, and a search meets other choices with another budget. Looks at smaller(device),
  /// what is smaller() than that, and so on, a few times, while one of them can be better by more than 1 %
  /// and programs are short enough.
  std::optional<Placement> find_with_less(const MemoryRequest& memory, Shortage& shortage);
  /// Eight ninths: a search with an eighth more looks at this budget, too.
  static constexpr Bytes smaller(Bytes device) { return device - device / 9; }

 private:
  /// Leaves out choices that take no less than `longest` seconds before they are placed.
  std::optional<TimedPlacement> find_timed(const MemoryRequest& memory, Shortage& shortage, double longest);
  /// What no step takes less than within these budgets.
  double least_seconds(const MemoryRequest& memory, const Strategy& strategy) const;
  /// What a step of a placed program takes.
  double seconds_of(const Program& placed) const;
  /// Makes `best` one that saves another number of activations beside as much state on the device, if a step
  /// is shorter.
  void save_other_numbers(TimedPlacement& best, const MemoryRequest& memory) const;

  struct Candidate {
    double seconds;    ///< of a step, if it is placed at no cost
    double computing;  ///< of them
    PlacementSearch places;
  };
  const Model* model_;
  MachineRates rates_;
  PlanRequest request_;
  std::int32_t stage_;
  std::vector<Candidate> candidates_;  ///< the cheapest first
};

/// The least memory.device that CheapestSearch finds a placement for, on every stage of the pipeline, if the
/// tiers beyond have room enough.
Bytes smallest_device_bytes(const PlanRequest& request, const Model& model);

}  // namespace strata
