// From gradients to the next step's parameters, and to checkpoints: the norm, the optimizer's updates, and
// what is saved of them.
#pragma once

#include <vector>

#include "engine/plan/lower/state_layout.h"
#include "engine/plan/lower/step_builder.h"

namespace strata {

class UpdateLowering {
 public:
  /// REQUIRES: all outlive it.
  UpdateLowering(const Model& model, const std::vector<UnitWork>& work, StepValues& step, StateLayout& state,
                 StepBuilder& builder)
      : model_(model),
        work_(work),
        step_(step),
        state_(state),
        builder_(builder),
        strategy_(builder.strategy()) {}

  /// Adds up what this stage's gradients have.
  void sum_norms();
  void grad_norm();
  void update(const Visit& visit);
  /// Keeps a unit's parameters as they are before an update.
  void stash(const Visit& visit);
  /// Behind the last visit.
  void finish();

 private:
  std::int32_t unit_count() const;
  /// The last unit whose update belongs to the round behind its step's, or -1.
  std::int32_t last_late_unit() const;
  /// Whether what a step saves is whole in the round behind it: if a unit is updated there, or may be on
  /// another stage.
  bool finishes_in_next_round() const;
  std::vector<Use> norms();
  void update(std::int32_t u, StatePiece& piece, Value& scalars);
  /// Momentum of the piece's matrices; their directions take the place of their gradients.
  void mix_momentum(std::int32_t u, StatePiece& piece, Value& scalars);
  /// The directions of the unit's whole tensors, in the place of what is there.
  void precondition(std::int32_t u, Value& scalars);
  /// Whether momentum of matrices changes this part of the unit's state.
  bool is_mixed(std::int32_t u, Role role) const {
    return nth(step_.units, u).direction_workspace.elements > 0 && role == role_of(kMixedMoment);
  }
  /// Makes what ranks keep of a unit's parameter from what the update has made on each.
  void share_parameter(std::int32_t u);
  void save_frozen();  ///< behind all updates
  void finish_checkpoint();
  void save(std::int32_t u, const Piece& piece, const std::vector<Use>& part);
  /// Saves a piece's state: the moment that momentum changes, or all the rest.
  void save(std::int32_t u, StatePiece& piece, bool is_mixed);

  const Model& model_;
  const std::vector<UnitWork>& work_;
  StepValues& step_;
  StateLayout& state_;
  StepBuilder& builder_;
  const Strategy& strategy_;
};

}  // namespace strata
