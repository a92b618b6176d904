// How a checkpoint reaches a run's training state, on whatever tier it is. It reaches a unit at a time, since
// a file on NVMe cannot show all units at once. If ranks share the state it reaches a range of each unit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/nth.h"
#include "collectives/communicator.h"
#include "engine/model/flat_range.h"
#include "engine/model/model.h"
#include "optim/update_rule.h"

namespace strata {

/// Moments in the order of Moment.
enum class StateKind : std::uint8_t { master, exp_avg, exp_avg_sq, momentum_buffer, frozen };

inline constexpr std::array kStateKinds = {StateKind::master, StateKind::exp_avg, StateKind::exp_avg_sq,
                                           StateKind::momentum_buffer, StateKind::frozen};

constexpr StateKind kind_of(Moment moment) {
  return static_cast<StateKind>(static_cast<int>(StateKind::exp_avg) + static_cast<int>(moment));
}
static_assert(kind_of(kMoments.back()) == StateKind::momentum_buffer);

/// Whether it is what the model computes with, and no moment.
constexpr bool are_weights(StateKind kind) {
  return kind == StateKind::master || kind == StateKind::frozen;
}

/// Which of a unit's flat parameters has the shape of the kind.
constexpr Flat flat_of(StateKind kind) {
  return kind == StateKind::frozen ? Flat::frozen : Flat::trained;
}
/// That of the parameters.
constexpr StateKind weights_in(Flat flat) {
  return flat == Flat::frozen ? StateKind::frozen : StateKind::master;
}
/// What there is of a model's state, in their order.
std::vector<StateKind> kinds_of(const Model& model);
/// The kinds of a model's state in one flat, in their order.
std::vector<StateKind> kinds_of(const Model& model, Flat flat);
/// What of it checkpoints have: what adapters stand beside never changes, so they only say what it is.
std::vector<StateKind> saved_kinds_of(const Model& model);

constexpr std::string_view name_of(StateKind kind) {
  constexpr std::array<std::string_view, kStateKinds.size()> kNames = {"master", "exp_avg", "exp_avg_sq",
                                                                       "momentum_buffer", "frozen"};
  return nth(kNames, kind);
}

/// One rank's way to its state. Units are named by their index in Model::units. REQUIRES: the unit has
/// elements of the kind that is asked for.
struct StateAccess {
  /// What this rank gives to checkpoints and hashes, of every kind of this shape. The ranges of all ranks
  /// together cover each unit once, so of ranks that hold the same all but one give less, or nothing.
  std::function<FlatRange(std::size_t unit, Flat flat)> saved;
  /// The values of saved(unit, flat_of(kind)); valid until the next call.
  std::function<std::span<const float>(std::size_t unit, StateKind kind)> read;
  /// What this rank wants from a checkpoint: at least what it holds, and all of the masters if it keeps a
  /// parameter whole.
  std::function<FlatRange(std::size_t unit, StateKind kind)> loaded;
  /// `fill` gets the buffer of loaded(unit, kind) and writes all of it. `fill` is not called if the buffer is
  /// empty. `read_tensor` reads the same values, also beyond the rank's own part of a tensor: a packed block
  /// that ranks share has one scale for all of them.
  std::function<void(std::size_t unit, StateKind kind, const std::function<void(std::span<float>)>& fill,
                     const ReadTensor& read_tensor)>
      write;
};

/// Elements [first, first + count) of what is saved of a unit; valid until the next call. `count` is at most
/// kLargestRead.
using ReadState = std::function<std::span<const float>(std::int64_t first, std::int64_t count)>;
inline constexpr std::int64_t kLargestRead = 256 * 1024;

/// Serves one rank whose state lies in host memory as it is. A kind that is to be left out when loading may
/// be empty.
StateAccess access_in_memory(std::function<std::span<float>(std::size_t unit, StateKind kind)> flat);

/// XXH3, as hex, of every unit's master, moments and frozen parameters, in order. Only tensors count, since
/// padding depends on the layout. The hash is of the state of all `ranks` together, however they share it,
/// and all ranks get it. Rank 0 has one range of another rank in memory at a time. If ranks have stretches of
/// tensors, it has a whole unit.
std::string state_hash(const Model& model, const StateAccess& state, Communicator* ranks = nullptr);

}  // namespace strata
