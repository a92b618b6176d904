// Merging: programs of several models become one, in which their instructions take turns. Each model's own
// keep their order, so each computes what it computes alone; passes then keep, fetch and place the values of
// all as those of one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/plan/program/program.h"

namespace strata {

/// A stretch of a program's instructions that nothing comes between: [first, last).
struct Turn {
  std::int32_t first = 0, last = 0;
};

/// The turns of a plain program: between two of them no value of the model's is on the device but what is
/// there throughout. So models that take turns need the device's memory one after another. What ranks meet in
/// begins a turn, if nothing is there before it.
std::vector<Turn> find_turns(const Program& plain);

/// The plain program with the turns from number `turn` on first, which then work for the step before the
/// round's, begun in the round before by the others. REQUIRES: all its instructions work for the round's own
/// step.
Program begin_round_with(const Program& plain, std::size_t turn);

/// A model's program of a step.
struct ModelProgram {
  std::string name;
  const Program* plain = nullptr;  ///< null: it has none, and its number names no instruction
  /// By unit: the number of its frozen values, which other models' units have too, or -1. Empty: none has.
  std::span<const std::int32_t> shared_frozen = {};
};

/// The number that a model's first unit has in the merged program.
std::int32_t first_unit(std::span<const ModelProgram> models, std::size_t model);

/// Ranks' groups of all programs, each once.
std::vector<RankGroup> groups_of(std::span<const ModelProgram> models);

/// The programs as one, whose groups are `groups`: `order` has a model's number for each of its turns. Names
/// of units and buffers begin with the model's, and units are numbered model after model. Frozen values of
/// one number that live alike are one buffer, named as the first model's. REQUIRES: the groups of all
/// programs are among them.
Program merge(std::span<const ModelProgram> models, std::span<const std::int32_t> order,
              std::vector<RankGroup> groups);
/// Merges programs whose groups are all that there are.
Program merge(std::span<const ModelProgram> models, std::span<const std::int32_t> order);

/// Number `model`'s part of a merged program: its instructions with their places, the buffers that they touch
/// and its state. What else is not about buffers and instructions is as in its own program.
Program part_of(const Program& merged, std::span<const ModelProgram> models, std::size_t model);

}  // namespace strata
