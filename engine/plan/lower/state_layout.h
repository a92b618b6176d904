// Where a run's state lives while a program is built: which values persist, on which tier, and what updates
// and saves touch of them.
#pragma once

#include <utility>
#include <vector>

#include "base/nth.h"
#include "engine/plan/lower/step_values.h"

namespace strata {

class StateLayout {
 public:
  /// REQUIRES: all outlive it.
  StateLayout(const Strategy& strategy, StepValues& step, ProgramBuilder& builder)
      : strategy_(strategy), step_(step), builder_(builder) {}

  /// Makes the buffers of all state and lists them in the program.
  void make_persistent();
  /// The top unit's gradient is made first and used last.
  void carry_what_late_updates_read();

  /// What the rank keeps of what is frozen.
  Value& frozen(std::int32_t u) { return values_of(u).frozen.kept(strategy_.gathers()); }
  /// What an update writes.
  Value& updated_parameter(std::int32_t u);
  /// What an update reads.
  Value& final_gradient(std::int32_t u);
  /// What each save of a unit's piece reads.
  std::vector<std::vector<Use>> saved_parts(std::int32_t u, StatePiece& piece);
  /// What is saved together is on the host, or else only on the device.
  static bool is_at_home(const std::vector<Use>& part) { return part.front().value->home >= 0; }
  /// Host memory for what is saved and lives on the device, or -1.
  BufferId room_for_saving() const { return room_for_saving_; }

 private:
  std::int32_t unit_count() const { return static_cast<std::int32_t>(step_.units.size()); }
  UnitValues& values_of(std::int32_t u) { return nth(step_.units, u); }

  /// What a unit keeps from step to step.
  std::vector<Value*> state_of(std::int32_t u);
  void make_home_persistent(Value& value);
  void note_state(StateKey part, std::int32_t u, const Value& value, BufferId buffer, Piece piece = {});
  std::pair<StateKey, Piece> part_of(std::int32_t u, const Value& value);
  void note_state_of(std::int32_t u);
  void make_room_for_saving();

  const Strategy& strategy_;
  StepValues& step_;
  ProgramBuilder& builder_;
  BufferId room_for_saving_ = -1;
};

}  // namespace strata
