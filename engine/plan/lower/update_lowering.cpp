#include "engine/plan/lower/update_lowering.h"

#include <utility>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/model/updated_matrices.h"

namespace strata {

std::int32_t UpdateLowering::unit_count() const {
  return static_cast<std::int32_t>(model_.units.size());
}

std::int32_t UpdateLowering::last_late_unit() const {
  const auto is_updated_late = [&](std::int32_t u) {
    return strategy_.has(u) && nth(work_, u).update && strategy_.updates_late_of(u);
  };
  std::int32_t u = unit_count() - 1;
  while (u >= 0 && !is_updated_late(u)) --u;
  return u;
}

bool UpdateLowering::finishes_in_next_round() const {
  const bool may_be_late_elsewhere =
      strategy_.mesh.pipeline > 1 && strategy_.global_norm && !strategy_.is_asynchronous();
  return may_be_late_elsewhere || last_late_unit() >= 0;
}

void UpdateLowering::finish() {
  if (last_late_unit() < 0) save_frozen();
  if (!finishes_in_next_round()) finish_checkpoint();
}

std::vector<Use> UpdateLowering::norms() {
  std::vector<Use> uses;
  for (UnitValues& values : step_.units) {
    if (!values.trains()) continue;
    for (Value& norm : values.norms) uses.push_back({Role::norm, &norm, Access::read});
  }
  return uses;
}

void UpdateLowering::sum_norms() {
  std::vector<Use> uses = norms();
  uses.push_back({Role::norm, &step_.stage_norm, Access::write});
  builder_.on_host(Operation::sum_norms, Lane::cpu, -1, -1, uses);
}

void UpdateLowering::grad_norm() {
  std::vector<Use> uses;
  if (strategy_.mesh.pipeline > 1) {
    if (strategy_.updates() == 1) sum_norms();
    builder_.all_reduce_on_host(-1, DataGroup::pipeline, Role::norm, step_.stage_norm);
    uses = {{Role::norm, &step_.stage_norm, Access::read}};
  } else {
    uses = norms();
  }
  if (strategy_.global_norm) uses.push_back({Role::step_scalars, &step_.step_scalars, Access::write});
  if (strategy_.scales_loss()) uses.push_back({Role::loss_scale, &step_.loss_scale, Access::update});
  if (strategy_.saves) uses.push_back({Role::step_record, &step_.step_record, Access::write});
  builder_.on_host(Operation::grad_norm, -1, -1, uses, Effect::reports);
  if (strategy_.saves) {
    // Behind all that ranks exchange in a round, so that they meet there also if they do one thing at a time.
    if (finishes_in_next_round()) {
      builder_.set_serves(Serves::step_before);
      finish_checkpoint();
      builder_.set_serves(Serves::step);
    }
    builder_.on_host(Operation::save, Lane::save, -1, -1,
                     {{Role::step_record, &step_.step_record, Access::read}}, When::saving);
  }
}

void UpdateLowering::update(const Visit& visit) {
  const std::int32_t u = visit.unit;
  UnitValues& values = nth(step_.units, u);
  Value& scalars = strategy_.global_norm ? step_.step_scalars : values.step_scalars;
  if (!strategy_.global_norm) {
    builder_.on_host(Operation::step_scalars, u, visit.microbatch,
                     {{Role::norm, &values.norm_of(visit.microbatch), Access::read},
                      {Role::step_scalars, &scalars, Access::write}},
                     Effect::decides);
  }
  const bool is_last_of_step = visit.microbatch < 0 || visit.microbatch + 1 == strategy_.microbatches;
  const bool saves = strategy_.saves && is_last_of_step;
  if (values.direction_workspace.elements > 0) {
    for (StatePiece& piece : values.state) {
      mix_momentum(u, piece, scalars);
      if (saves) save(u, piece, true);
    }
    precondition(u, scalars);
    if (saves && values.factors.elements > 0) save(u, {}, {{Role::factors, &values.factors, Access::read}});
  }
  for (StatePiece& piece : values.state) {
    update(u, piece, scalars);
    if (&piece == &values.state.back()) share_parameter(u);
    if (saves) save(u, piece, false);
  }
  if (u == last_late_unit()) save_frozen();
}

void UpdateLowering::update(std::int32_t u, StatePiece& piece, Value& scalars) {
  std::vector<Use> uses = {{Role::step_scalars, &scalars, Access::read},
                           {Role::gradient, &state_.final_gradient(u), Access::read}};
  if (!strategy_.is_own_master()) uses.push_back({Role::master, &piece.master, Access::update});
  for (auto& [moment, value] : piece.moments)
    if (!is_mixed(u, role_of(moment))) uses.push_back({role_of(moment), &value, Access::update});
  // A rounded copy is overwritten, whole or piece by piece; a parameter that is its own master or the high
  // half of it is updated.
  Value& parameter = state_.updated_parameter(u);
  const bool is_made = strategy_.is_rounded_copy() && piece.piece.first == 0;
  uses.push_back({Role::parameter, &parameter, is_made ? Access::write : Access::update});
  if (strategy_.on_device(u)) {
    if (parameter.resident < 0) builder_.make_resident(parameter, false);
    builder_.on_compute(Operation::update, u, uses);
  } else {
    builder_.on_host({.operation = Operation::update, .lane = Lane::cpu, .unit = u, .piece = piece.piece},
                     uses);
  }
}

void UpdateLowering::mix_momentum(std::int32_t u, StatePiece& piece, Value& scalars) {
  std::vector<Use> uses = {{Role::step_scalars, &scalars, Access::read},
                           {Role::gradient, &state_.final_gradient(u), Access::update}};
  for (auto& [moment, value] : piece.moments)
    if (is_mixed(u, role_of(moment))) uses.push_back({role_of(moment), &value, Access::update});
  if (uses.size() == 2) return;
  if (strategy_.on_device(u)) {
    builder_.on_compute(Operation::mix_momentum, u, uses);
  } else {
    builder_.on_host(
        {.operation = Operation::mix_momentum, .lane = Lane::cpu, .unit = u, .piece = piece.piece}, uses);
  }
}

void UpdateLowering::precondition(std::int32_t u, Value& scalars) {
  UnitValues& values = nth(step_.units, u);
  Value& gradient = state_.final_gradient(u);
  Value* gathered = &gradient;
  if (values.directions.elements > 0) {
    builder_.make_resident(values.directions, false);
    builder_.all_gather(u, *gathered, values.directions);
    gathered = &values.directions;
  }
  if (Value& all = values.all_directions; all.elements > 0) {
    builder_.make_resident(all, false);
    builder_.gather_or_scatter(
        Operation::all_gather, u, -1,
        {{Role::source, gathered, Access::read, Use::Part{gathered->type, gathered->elements}},
         {Role::destination, &all, Access::write, Use::Part{all.type, all.elements}}});
    gathered = &all;
  }
  const bool shares_out = strategy_.shares_out_matrices;
  Value& result = shares_out ? values.directions : gradient;
  std::vector<Use> uses = {{Role::workspace, &values.direction_workspace, Access::write},
                           {Role::gradient, &result, Access::update}};
  if (values.factors.elements > 0) {
    uses.push_back({Role::step_scalars, &scalars, Access::read});
    uses.push_back({Role::factors, &values.factors, Access::update});
  }
  if (gathered != &result) uses.push_back({Role::source, gathered, Access::update});
  const double flops =
      direction_flops(updated_matrices(model_, nth(model_.units, u)), shares_out ? strategy_.mesh.shard : 1);
  builder_.on_device({.operation = Operation::precondition, .unit = u, .flops = flops}, uses);
  // Each rank has left zeros where others have results, so sums are exact.
  if (shares_out) {
    builder_.on_comm(
        Operation::reduce_scatter, u, builder_.exchange_of_parts(gradient.bytes()),
        {{Role::source, &values.directions, Access::read}, {Role::destination, &gradient, Access::write}});
    if (values.factors.elements > 0) {
      builder_.on_comm(Operation::all_reduce, u, builder_.exchange_of_sums(DataGroup::shard, values.factors),
                       {{Role::factors, &values.factors, Access::update}});
    }
  }
}

void UpdateLowering::share_parameter(std::int32_t u) {
  ParameterValues& parameter = nth(step_.units, u).parameter;
  const bool is_gathered_here = strategy_.is_sharded() && !strategy_.gathers();
  if (parameter.is_packed()) {
    Value& packed = strategy_.is_sharded() ? parameter.packed_shard : parameter.packed;
    const std::vector<Use> uses = {{Role::source, &state_.updated_parameter(u), Access::read},
                                   {Role::destination, &packed, Access::write}};
    if (strategy_.on_device(u)) {
      if (packed.resident < 0) builder_.make_resident(packed, false);
      builder_.on_compute(Operation::pack, u, uses);
    } else {
      builder_.on_host(Operation::pack, Lane::cpu, u, -1, uses);
    }
    if (is_gathered_here) builder_.all_gather(u, packed, parameter.packed);
  } else if (is_gathered_here) {
    builder_.all_gather(u, parameter.shard, parameter.whole);
  }
}

void UpdateLowering::stash(const Visit& visit) {
  const std::int32_t u = visit.unit;
  UnitValues& values = nth(step_.units, u);
  Value& newest = values.parameter.kept(strategy_.gathers());
  Value& stashed = values.parameter_of(visit.stash).kept(strategy_.gathers());
  const std::vector<Use> uses = {{Role::source, &newest, Access::read},
                                 {Role::destination, &stashed, Access::write}};
  if (newest.resident >= 0) {
    builder_.on_compute(Operation::stash, u, uses);
  } else {
    builder_.on_host(Operation::stash, Lane::cpu, u, -1, uses);
  }
}

void UpdateLowering::save_frozen() {
  if (!strategy_.saves || strategy_.names_frozen) return;
  for (std::int32_t u = 0; u < unit_count(); ++u) {
    if (strategy_.has(u) && nth(model_.units, u).frozen_elements > 0)
      save(u, {}, {{Role::frozen, &state_.frozen(u), Access::read}});
  }
}

void UpdateLowering::finish_checkpoint() {
  if (strategy_.saves) builder_.on_host(Operation::finish_checkpoint, Lane::save, -1, -1, {}, When::saving);
}

void UpdateLowering::save(std::int32_t u, StatePiece& piece, bool is_mixed) {
  for (const std::vector<Use>& part : state_.saved_parts(u, piece))
    if (this->is_mixed(u, part.front().role) == is_mixed) save(u, piece.piece, part);
}

/// Right after what is saved is made, so that what the nvme tier sends for the one serves the other too.
/// What lives on the device comes to the host by a copy of the save lane's own: the lane d2h, which the
/// next step needs, would wait for the disk.
void UpdateLowering::save(std::int32_t u, const Piece& piece, const std::vector<Use>& part) {
  if (StateLayout::is_at_home(part)) {
    builder_.on_host(
        {.operation = Operation::save, .lane = Lane::save, .unit = u, .when = When::saving, .piece = piece},
        part);
    return;
  }
  const Operand room{Role::workspace, ElementType::byte, state_.room_for_saving(),
                     builder_.program().buffer(state_.room_for_saving()).bytes};
  Instruction instruction{Operation::save, Lane::save, u, -1, {}, {room}, When::saving};
  instruction.serves = builder_.serves();
  for (const Use& use : part) instruction.reads.push_back(use.value->operand(use.role, use.value->resident));
  builder_.program().instructions.push_back(std::move(instruction));
}

}  // namespace strata
