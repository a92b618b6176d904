// Lowering: model × strategy → the plain program, in which every value has its home on the host, is fetched
// right before each use and written back right after. It runs in the least device memory possible; residency
// and prefetch make it fast.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "engine/plan/lower/strategy.h"
#include "engine/plan/program/program.h"

namespace strata {

/// One optimizer step: load, then the visits of training_schedule(). If some steps save, a unit's way to the
/// checkpoint begins once it is updated.
Program lower_training(const Model& model, const Strategy& strategy);

/// The mean loss of held-out microbatches: forward only. Persistent buffers are those of lower_training, in
/// the same order.
Program lower_validation(const Model& model, const Strategy& strategy);

/// One more token of each sample: a forward pass over all of them as they are. Persistent buffers are
/// those of lower_training, in the same order. REQUIRES: the run takes samples.
Program lower_sampling(const Model& model, const Strategy& strategy);

/// What a run does between its steps, in programs of forward passes that have state where training has it.
enum class Interlude : std::uint8_t { validation, sampling };
inline constexpr std::array kInterludes = {Interlude::validation, Interlude::sampling};
/// One value of each that a run has.
template <typename T>
using OfInterludes = std::map<Interlude, T>;

std::string_view name_of(Interlude interlude);
bool has(const Strategy& strategy, Interlude interlude);
/// Its plain program. REQUIRES: the run has it.
Program lower_interlude(Interlude interlude, const Model& model, const Strategy& strategy);

}  // namespace strata
