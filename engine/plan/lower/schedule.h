// The order of a step's work, before there is a program: a list of visits, which lowering walks. A schedule
// knows units and microbatches by number only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/lower/strategy.h"

namespace strata {

enum class Pass : std::uint8_t {
  forward,          ///< of a unit, for one microbatch
  backward,         ///< of a unit, for one microbatch, with the forward pass if nothing was saved of it
  input_gradient,   ///< a backward pass in two: what the unit before waits for,
  weight_gradient,  ///< and what only gradients of parameters need
  finish_gradient,  ///< of a unit: what this rank's microbatches have given, in the form in which it travels
  reduce_gradient,  ///< of a unit: what all ranks' microbatches have given, and its sum of squares
  sums,             ///< this rank's, of losses and of gradients' squares, where they are visits of their own
  loss,             ///< of all microbatches
  next_tokens,      ///< of all samples: what follows each
  gradient_norm,    ///< of all units
  stash,            ///< of a unit: its parameters, for passes behind the update that follows
  update,           ///< of a unit: the optimizer
  send,             ///< to another stage of the pipeline
  receive,
  load  ///< a microbatch's data; where it is no visit, a step begins with that of all microbatches
};
std::string_view name_of(Pass pass);

/// What stages send each other of a unit.
enum class Message : std::uint8_t {
  none,
  input,           ///< of a microbatch, to the unit's stage
  input_gradient,  ///< of a microbatch, from the unit's stage
  gradient,        ///< that a copy of its parameters was given, to the stage that updates them
  parameter        ///< updated, to the stage that has a copy
};
std::string_view name_of(Message message);

struct Visit {
  Pass pass;
  std::int32_t unit = -1;        ///< -1: all
  std::int32_t microbatch = -1;  ///< -1: all
  Serves serves = Serves::step;
  Message message = Message::none;  ///< that it sends or receives
  std::int32_t stage = -1;          ///< and to or from whom
  std::int32_t stash = -1;  ///< the stashed parameters that it makes or uses; -1: those that updates write
  friend bool operator==(const Visit&, const Visit&) = default;
};

using Schedule = std::vector<Visit>;

/// What there is to do for a unit in a step, besides its forward passes.
struct UnitWork {
  bool backward = true;  ///< a gradient passes it, or ends there; always so of the last unit
  bool update = true;    ///< it has something to train
  bool input_gradient = true,
       weight_gradient = true;  ///< either part of the backward pass has something to do
};
std::vector<UnitWork> unit_work(const Model& model, const Strategy& strategy);

/// One optimizer step of all units on strategy.microbatches microbatches, or in a pipeline the part of the
/// strategy's stage. `units` are those of the whole model.
///
/// Each unit's gradient sums microbatches 0, 1, … . The first unit's backward passes come last for all of
/// them, since the last unit may add to the same gradient (parameters that both use).
///
/// If nothing waits for the norm of all gradients, a unit that is updated on the host is updated as soon as
/// its gradient is reduced. A device update would wait for its scalars to come from the host, and all later
/// instructions with it. If strategy.updates_late, a host unit is updated for the step before, right before
/// its first use.
///
/// An asynchronous pipeline has a round instead (training_round()). All of it serves the step before the
/// round's, but for passes that are done ahead. If parameters were updated since a microbatch's forward pass,
/// or since the step before its own, the microbatch's passes find the older ones stashed.
Schedule training_schedule(const Strategy& strategy, const std::vector<UnitWork>& units);

/// The mean loss of `microbatches` held-out microbatches: forward passes only.
Schedule validation_schedule(const Strategy& strategy, std::int32_t units, std::int32_t microbatches);
/// Forward passes of a rank's samples, and what follows each.
Schedule sampling_schedule(const Strategy& strategy, std::int32_t units);

/// One visit per line, with the names of the units: "backward unit.3 mb=2".
std::string print(const Schedule& schedule, const std::vector<std::string>& units);

}  // namespace strata
