// When the instructions of a program run, if each takes as long as the rates of a machine say: lanes in their
// order, each instruction behind those that it depends on. Pure functions; any thread.
#pragma once

#include <span>

#include "engine/plan/program/dependencies.h"
#include "engine/plan/search/rates.h"

namespace strata {

struct RankProgram;

/// Seconds that an instruction takes by itself in a step that saves nothing: those of its FLOPs, of the bytes
/// that it copies, reads, writes or sends, or of the memory that it goes through.
double seconds_of(const Program& program, const Instruction& instruction, const MachineRates& rates);

/// Seconds from one step to the next once all lanes are busy. Lanes are taken to have what they need for
/// themselves: where cores copy, or a drive reads and writes in turns, a step cannot be as short.
/// REQUIRES: the program is placed, and the dependencies are its own.
double simulated_seconds(const Program& placed, const Dependencies& dependencies, const MachineRates& rates);
/// Likewise of ranks that wait for one another. REQUIRES: they have dependencies, and meet.
double simulated_seconds(std::span<const RankProgram> ranks, const MachineRates& rates);

}  // namespace strata
