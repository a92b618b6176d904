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
#include "engine/model/graph/unit.h"
#include "optim/state_key.h"
#include "optim/update_policy.h"

namespace strata {

struct Model;

/// Whether it is what the model computes with, and no moment.
constexpr bool are_weights(StateKey key) {
  return key == StateKey::master || key == StateKey::frozen;
}

/// Which of a unit's flat arrays has the shape of this state.
constexpr Flat flat_of(StateKey key) {
  if (key == StateKey::factors) return Flat::factors;
  return key == StateKey::frozen ? Flat::frozen : Flat::trained;
}
/// That of the parameters.
constexpr StateKey weights_in(Flat flat) {
  return flat == Flat::frozen ? StateKey::frozen : StateKey::master;
}
/// What there is of a model's state, in their order: by its own rules, or by these.
std::vector<StateKey> keys_of(const Model& model);
std::vector<StateKey> keys_of(const Model& model, const UpdateRules& rules, bool averages);
/// What there is of it in one flat, in their order.
std::vector<StateKey> keys_of(const Model& model, Flat flat);
/// What a range has of the unit's tensors, of this state: pieces_in() without tensors that do not keep it.
std::vector<TensorPiece> pieces_in(const Model& model, const Unit& unit, StateKey key, FlatRange range);
/// What of it checkpoints have: what adapters stand beside never changes, so they only say what it is.
std::vector<StateKey> saved_keys_of(const Model& model);

/// One rank's way to its state. Units are named by their index in Model::units. REQUIRES: the unit has
/// elements of the state that is asked for.
struct StateAccess {
  /// What this rank gives to checkpoints and hashes, of all state of this shape; of a moment, kept_part() of
  /// it. The ranges of all ranks together cover each unit once, so of ranks that hold the same all but one
  /// give less, or nothing.
  std::function<FlatRange(std::size_t unit, Flat flat)> saved;
  /// The values of that; valid until the next call.
  std::function<std::span<const float>(std::size_t unit, StateKey key)> read;
  /// What this rank wants from a checkpoint: at least what it holds, and all of the masters if it keeps a
  /// parameter whole. Of a moment that no tensor of the unit keeps it wants nothing.
  std::function<FlatRange(std::size_t unit, StateKey key)> loaded;
  /// `fill` gets the buffer of loaded(unit, key) and writes all of it. `fill` is not called if the buffer is
  /// empty. `read_tensor` reads the same values, also beyond the rank's own part of a tensor: a packed block
  /// that ranks share has one scale for all of them.
  std::function<void(std::size_t unit, StateKey key, const std::function<void(std::span<float>)>& fill,
                     const ReadTensor& read_tensor)>
      write;
};

/// Elements [first, first + count) of what is saved of a unit; valid until the next call. `count` is at most
/// kLargestRead.
using ReadState = std::function<std::span<const float>(std::int64_t first, std::int64_t count)>;
inline constexpr std::int64_t kLargestRead = 256 * 1024;

/// Serves one rank whose state lies in host memory as it is: `flat` has the shape of a unit's parameters,
/// also of a moment that only some tensors keep. REQUIRES: the model outlives it.
StateAccess access_in_memory(const Model& model,
                             std::function<std::span<float>(std::size_t unit, StateKey key)> flat);

/// XXH3, as hex, of every unit's master, moments and frozen parameters, in order. Only tensors count, since
/// padding depends on the layout. The hash is of the state of all `ranks` together, however they share it,
/// and all ranks get it. Rank 0 has one range of another rank in memory at a time. If ranks have stretches of
/// tensors, it has a whole unit.
std::string state_hash(const Model& model, const StateAccess& state, Communicator* ranks = nullptr);

}  // namespace strata
