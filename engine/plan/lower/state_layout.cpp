#include "engine/plan/lower/state_layout.h"

#include <algorithm>
#include <utility>

#include "engine/model/model.h"

namespace strata {

std::vector<Value*> StateLayout::state_of(std::int32_t u) {
  UnitValues& values = values_of(u);
  std::vector<Value*> state;
  Value& kept = values.parameter.kept(strategy_.gathers());
  if (!strategy_.gathers()) state.push_back(&kept);
  state.push_back(&frozen(u));
  if (strategy_.gathers()) state.push_back(&kept);
  // What is rounded from a master is of no use after it was packed or gathered.
  Value& updated = updated_parameter(u);
  if (&updated != &kept && !strategy_.is_rounded_copy()) state.push_back(&updated);
  for (StatePiece& piece : values.state) {
    if (!strategy_.is_own_master()) state.push_back(&piece.master);
    for (auto& [moment, value] : piece.moments) state.push_back(&value);
  }
  state.push_back(&values.factors);
  std::erase_if(state, [](const Value* value) { return value->elements == 0; });
  return state;
}

void StateLayout::make_persistent() {
  if (step_.constants.elements > 0) {
    builder_.make_resident(step_.constants, true);
    note_state(StateKey::constants, -1, step_.constants, step_.constants.resident);
  }
  if (strategy_.scales_loss()) {
    make_home_persistent(step_.loss_scale);
    note_state(StateKey::loss_scale, -1, step_.loss_scale, step_.loss_scale.home);
  }
  for (std::int32_t u = 0; u < unit_count(); ++u) {
    UnitValues& values = values_of(u);
    const Value* fetched = &values.parameter.kept(strategy_.gathers());
    for (Value* value : state_of(u)) {
      const bool is_frozen = value == &frozen(u), is_factors = value == &values.factors;
      const bool is_pinned = strategy_.pins.parameters && (value == fetched || is_frozen);
      const bool stays_on_device = strategy_.on_device(u) || is_factors || is_pinned;
      if (stays_on_device) builder_.make_resident(*value, true);
      // A pinned parameter that is updated from its own value has that value at home, too.
      const bool is_updated_at_home =
          !is_frozen && !is_factors && values.trains() &&
          (value != fetched || (value == &updated_parameter(u) && !strategy_.is_rounded_copy()));
      if (!strategy_.on_device(u) && (!stays_on_device || is_updated_at_home)) make_home_persistent(*value);
      value->at_home = true;
    }
    note_state_of(u);
  }
  make_room_for_saving();
}

void StateLayout::carry_what_late_updates_read() {
  const auto carry = [&](Value& value) { builder_.program.buffer(builder_.home(value)).carried = true; };
  for (std::int32_t u = unit_count() - 1; u >= 0; --u) {
    if (values_of(u).trains() && strategy_.updates_late_of(u)) carry(final_gradient(u));
  }
  carry(step_.step_scalars);
}

void StateLayout::make_home_persistent(Value& value) {
  builder_.program.buffer(builder_.home(value)).persistent = true;
}

void StateLayout::note_state(StateKey part, std::int32_t u, const Value& value, BufferId buffer,
                             Piece piece) {
  const auto is_whole_of = [&](const ParameterValues& values) {
    return &value == &values.whole || &value == &values.packed;
  };
  const bool is_whole = strategy_.is_sharded() && u >= 0 &&
                        (is_whole_of(values_of(u).parameter) || is_whole_of(values_of(u).frozen));
  builder_.program.state.push_back({part, u, is_whole, value.type, buffer, piece});
}

std::pair<StateKey, Piece> StateLayout::part_of(std::int32_t u, const Value& value) {
  for (const StatePiece& piece : values_of(u).state) {
    if (&value == &piece.master) return {StateKey::master, piece.piece};
    for (const auto& [moment, of_moment] : piece.moments)
      if (&value == &of_moment) return {key_of(moment), piece.piece};
  }
  if (&value == &frozen(u)) return {StateKey::frozen, {}};
  if (&value == &values_of(u).factors) return {StateKey::factors, {}};
  return {StateKey::parameter, {}};
}

void StateLayout::note_state_of(std::int32_t u) {
  const auto is_kept = [&](BufferId id) { return id >= 0 && builder_.program.buffer(id).persistent; };
  for (const Value* value : state_of(u)) {
    const auto [part, piece] = part_of(u, *value);
    const bool is_own_master =
        strategy_.is_own_master() && values_of(u).trains() && value == &updated_parameter(u);
    const BufferId updated = strategy_.on_device(u) ? value->resident : value->home;
    const BufferId other = strategy_.on_device(u) ? value->home : value->resident;
    if (is_kept(updated)) note_state(is_own_master ? StateKey::master : part, u, *value, updated, piece);
    if (is_kept(other)) note_state(part, u, *value, other, piece);
  }
}

/// Memory that nothing else uses: the next step would wait to use it until the disk has what is in it.
void StateLayout::make_room_for_saving() {
  Bytes largest = 0;
  const auto make_room = [&](const std::vector<Use>& part) {
    if (is_at_home(part)) return;
    Bytes bytes = 0;
    for (const Use& use : part) bytes += align_up(use.value->bytes(), kBufferAlignment);
    largest = std::max(largest, bytes);
  };
  for (std::int32_t u = 0; u < unit_count(); ++u) {
    if (!strategy_.names_frozen) make_room({{Role::frozen, &frozen(u), Access::read}});
    make_room({{Role::factors, &values_of(u).factors, Access::read}});
    if (values_of(u).trains()) std::ranges::for_each(saved_parts(u, values_of(u).state.front()), make_room);
  }
  if (!strategy_.saves || largest == 0) return;
  room_for_saving_ =
      builder_.program.add({"saved_state", Tier::host, BufferKind::communication, largest, true, -1});
}

Value& StateLayout::updated_parameter(std::int32_t u) {
  ParameterValues& parameter = values_of(u).parameter;
  return strategy_.is_sharded() || parameter.is_packed() ? parameter.shard : parameter.whole;
}

Value& StateLayout::final_gradient(std::int32_t u) {
  UnitValues& values = values_of(u);
  const bool is_cast_last =
      !strategy_.travels_as_fp32() && (strategy_.reduces_as_fp32() || !strategy_.is_sharded());
  return is_cast_last             ? values.cast_gradient
         : strategy_.is_sharded() ? values.reduced_gradient
                                  : values.gradient;
}

std::vector<std::vector<Use>> StateLayout::saved_parts(std::int32_t u, StatePiece& piece) {
  Value& parameter = updated_parameter(u);
  std::vector<Use> master = {
      {Role::master, strategy_.is_own_master() ? &parameter : &piece.master, Access::read}};
  if (strategy_.state_format.master == MasterFormat::split)
    master.push_back({Role::parameter, &parameter, Access::read});
  std::vector<std::vector<Use>> parts = {std::move(master)};
  for (auto& [moment, value] : piece.moments) parts.push_back({{role_of(moment), &value, Access::read}});
  return parts;
}

}  // namespace strata
