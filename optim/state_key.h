// What is kept of a run from step to step, under one name wherever it is placed, moved, saved or hashed. A
// new moment needs no line here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/enum_array.h"
#include "base/nth.h"
#include "optim/update_rule.h"

namespace strata {

enum class StateKey : std::uint8_t {
  parameter,  ///< what is computed with, unless that is its own master
  master,
  moment,                              ///< the first; the others follow, in the order of Moment
  factors = moment + kMoments.size(),  ///< of rules that keep them: means of squares of rows and of columns
  frozen,
  constants,
  loss_scale
};

constexpr StateKey key_of(Moment moment) {
  return static_cast<StateKey>(static_cast<int>(StateKey::moment) + static_cast<int>(moment));
}

/// Nothing for what is no moment.
constexpr std::optional<Moment> moment_of(StateKey key) {
  if (key < StateKey::moment || key >= StateKey::factors) return std::nullopt;
  return static_cast<Moment>(static_cast<int>(key) - static_cast<int>(StateKey::moment));
}

inline constexpr auto kStateKeys = [] {
  std::array<StateKey, ordinal(StateKey::loss_scale) + 1> keys = {};
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<StateKey>(i);
  return keys;
}();
constexpr const auto& values_of(StateKey) {
  return kStateKeys;
}

constexpr std::string_view name_of(StateKey key) {
  if (const std::optional<Moment> moment = moment_of(key)) return name_of(*moment);
  switch (key) {
    case StateKey::parameter:
      return "parameter";
    case StateKey::master:
      return "master";
    case StateKey::factors:
      return "factors";
    case StateKey::frozen:
      return "frozen";
    case StateKey::constants:
      return "constants";
    default:
      return "loss_scale";
  }
}

}  // namespace strata
