// The programs of several ranks as tasks of one timeline: what each instruction waits for on its rank, and
// where ranks meet. Ranks that do the same at once need only one among them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/plan/program/dependencies.h"
#include "engine/plan/program/program.h"
#include "engine/plan/program/tasks.h"

namespace strata {

/// One rank of a run. REQUIRES: both outlive it.
struct RankProgram {
  std::int64_t rank = 0;
  const Program* program = nullptr;
  const Dependencies* dependencies = nullptr;  ///< null: the rank does one thing at a time, in program order
};

/// How long an instruction of the number-th of the ranks takes.
using InstructionSeconds = std::function<double(std::size_t number, const Instruction& instruction)>;

/// Tasks of a run of `steps` steps: round after round, rank after rank, in program order. Steps that `saves`
/// names save. An instruction that a round does not perform takes no time and meets no other. Each lane of
/// each rank is a lane: number · lanes + lane. Messages meet their other end, and exchanges those of the
/// other given ranks. A single rank meets none. Throws std::logic_error, naming the rank and the instruction,
/// if a message or an exchange meets none, or one of another kind.
std::vector<LaneTask> rank_tasks(std::span<const RankProgram> ranks, int steps,
                                 const InstructionSeconds& seconds, SaveSchedule saves = {});

/// Throws std::logic_error, naming what waits, if ranks that meet wait for each other in a circle, or for
/// something that never comes: whether lanes run side by side or one after another.
void verify_ranks(std::span<const RankProgram> ranks);

}  // namespace strata
