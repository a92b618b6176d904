// How a checkpoint reaches a run's training state wherever it lives: a unit at a time, so that a tier that
// cannot show all of it at once (a file on NVMe) serves too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/model.h"

namespace strata {

enum class StateKind : std::uint8_t { master, exp_avg, exp_avg_sq };

inline constexpr std::array kStateKinds = {StateKind::master, StateKind::exp_avg, StateKind::exp_avg_sq};

constexpr std::string_view name_of(StateKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"master", "exp_avg", "exp_avg_sq"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// The file of a checkpoint that holds one kind of state.
std::string file_name(StateKind kind);

/// A unit, by its index in Model::units, is a flat buffer of unit.elements floats.
struct StateAccess {
  /// Valid until the next call.
  std::function<std::span<const float>(std::size_t unit, StateKind kind)> read;
  /// `fill` gets the buffer to write all of.
  std::function<void(std::size_t unit, StateKind kind, const std::function<void(std::span<float>)>& fill)>
      write;
};

/// Elements [first, first + count) of a unit's flat state; valid until the next call. `count` is at most kLargestRead.
using ReadState = std::function<std::span<const float>(std::int64_t first, std::int64_t count)>;
inline constexpr std::int64_t kLargestRead = 256 * 1024;

/// Of state that lies in host memory as it is.
StateAccess access_in_memory(std::function<std::span<float>(std::size_t unit, StateKind kind)> flat);

/// XXH3 of master, exp_avg and exp_avg_sq of every unit in order, tensors only (padding depends on the
/// layout), as hex.
std::string state_hash(const Model& model, const StateAccess& state);

}  // namespace strata
