// When the instructions of a program run, if each takes as long as the rates of a machine say: lanes in their
// order, each instruction behind those that it depends on. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/cost/rates.h"
#include "engine/plan/program/dependencies.h"

namespace strata {

struct RankProgram;
class UnitPass;

/// Seconds that a pass takes the lane compute, of a microbatch.
double seconds_of_pass(const UnitPass& pass, const MachineRates& rates);

/// Seconds that each instruction of a program takes by itself in a step that saves nothing. Passes take the
/// time of their kernels, if the machine's were measured, else of their FLOPs. Other instructions take the
/// time of the bytes that they copy, read, write or send, or of the memory that they go through. REQUIRES:
/// program and rates outlive it.
class InstructionCosts {
 public:
  InstructionCosts(const Program& program, const MachineRates& rates);

  double seconds_of(const Instruction& instruction) const;
  /// What its sender takes for it, where ranks meet.
  double seconds_of_receive(const Instruction& receive) const;

 private:
  double computing_seconds(const Instruction& instruction) const;

  const Program& program_;
  const MachineRates& rates_;
  RankLinks links_;
  std::vector<double> work_;  ///< seconds by number of work; empty if no kernels were measured
};

/// When an instruction runs.
struct InstructionTime {
  double start = 0, end = 0;  ///< seconds since the first instruction of its round began
  /// The instruction of its rank for which its lane, with nothing else to do, waited longest; or -1. That is
  /// of the round before if it ends first.
  std::int32_t awaited = -1;
  double waited = 0;  ///< seconds that the lane did nothing before

  /// What does not run ends before it starts.
  bool has_run() const { return end >= start; }
};

/// A round once all lanes are busy.
struct RoundTimeline {
  double seconds = 0;                         ///< from the end of the round before to its own
  std::vector<InstructionTime> instructions;  ///< in program order
};

/// Gives the last of a few rounds, of each rank. Lanes of a rank share its resources. If they together want
/// more of a resource than there is, each is slowed down. If cores copy, computing and updates want all
/// cores, and a copy or an exchange wants one, or less over a limited link. Drives read and write in turns.
/// Copies, drives and updates share the bandwidth of the host's memory. REQUIRES: the programs are placed,
/// have dependencies, and meet.
std::vector<RoundTimeline> simulate_round(std::span<const RankProgram> ranks, const MachineRates& rates);

/// Seconds from one step to the next once all lanes are busy, as simulate_round() has them. REQUIRES: the
/// program is placed, and the dependencies are its own.
double simulated_seconds(const Program& placed, const Dependencies& dependencies, const MachineRates& rates);
/// Seconds from one step to the next, of ranks that wait for one another. REQUIRES: the programs have
/// dependencies, and their exchanges meet.
double simulated_seconds(std::span<const RankProgram> ranks, const MachineRates& rates);

}  // namespace strata
