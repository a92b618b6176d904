// Changes of a run that may make its steps shorter or make it fit: keys of the run file, and faster links and
// drives. Which of them help is found by planning (advice.h); nothing here guesses. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/plan/cost/rates.h"

namespace strata {

/// What a change does besides, from the least to the most.
enum class ChangeEffect : std::uint8_t {
  none,      ///< no bit of the result changes
  rounding,  ///< the same mathematics, rounded otherwise
  machine,   ///< no bit changes, and it takes a machine that has it
  learning   ///< what is learned changes
};
std::string_view name_of(ChangeEffect effect);

struct Change {
  std::vector<std::string> settings = {};  ///< "key=value", as --set takes them
  ChangeEffect effect = ChangeEffect::none;
  double link = 1, drive = 1;  ///< factors of the rates of both directions

  /// Changes of one kind are alternatives: the keys that it sets, or "link" or "drive".
  std::string kind() const;
  MachineRates rates(MachineRates rates) const;
  /// Whether `other` has all of its settings and more.
  bool is_part_of(const Change& other) const;
  friend bool operator==(const Change&, const Change&) = default;
};

/// What is known of a run before its changes are thought of.
struct ChangeFacts {
  bool uses_drives = false;   ///< some of the run is on them
  bool is_large = false;      ///< planning takes long, so fewer alternatives of a kind are tried
  bool memory_helps = false;  ///< a step would be shorter, or be at all, with memory enough
  Bytes enough_device = 0;    ///< with which nothing leaves the device for lack of room
  Bytes enough_host =
      0;  ///< host memory with which nothing leaves the host for lack of room, beside the run's device budget
};

/// All that may make steps of `configs`, the models of a run, shorter. Keys in which models differ are left
/// alone. What the planner chooses by itself is not asked again: order, recomputation and places are given
/// back to it where the run file decides them. REQUIRES: there is a model; budgets are set.
std::vector<Change> faster_changes(const std::vector<RunConfig>& configs, const ChangeFacts& facts);

/// The folder that a change names if a run has no drives. A user puts a folder of their own in its place.
inline constexpr std::string_view kSomeFolder = "/scratch";

/// All that may make a run fit whose budgets are too small. One change sets two formats of the optimizer's
/// state, which may fit together only.
std::vector<Change> smaller_changes(const std::vector<RunConfig>& configs, const ChangeFacts& facts);

}  // namespace strata
