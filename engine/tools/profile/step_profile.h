// What a step does, when, and in which memory: the times of its instructions on their lanes, and the buffers
// that live on each tier from moment to moment. Pages, traces and memory views are drawn from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "base/nth.h"
#include "engine/plan/bound/certificate.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/planner.h"

namespace strata {

struct RecordedStep;

/// An instruction that does something.
struct ProfileSlice {
  std::int32_t instruction = -1;
  InstructionTime time;
};

/// A stretch of a buffer's life, from the start of the instruction that makes it until all that use it have
/// ended, in a step that saves nothing. What persists lives throughout.
struct BufferLife {
  BufferId buffer = -1;
  std::int32_t maker = -1, last_user = -1;  ///< first and last in program order; -1: of another round
  double from = 0, to = 0;                  ///< seconds
};

/// What lives on a tier from a moment on.
struct MemoryReading {
  double seconds = 0;
  EnumArray<BufferKind, Bytes> by_kind = {};

  Bytes bytes() const;
};

struct StepProfile {
  std::string name;                  ///< such as of a stage; empty: there is one
  const Program* program = nullptr;  ///< REQUIRES: outlives it
  double seconds = 0;                ///< from one step's end to the next's
  double end = 0;  ///< when its last instruction ends; steps overlap, so later than `seconds`
  std::vector<ProfileSlice> slices = {};                       ///< in program order
  std::vector<BufferLife> lives = {};                          ///< of buffers that are used, in their order
  TierBudgets budgets = {kUnlimited, kUnlimited, kUnlimited};  ///< what the run file lets tiers hold
  // By the machine's rates, if they are known.
  std::optional<Certificate> bound = {};  ///< what no plan of the run beats
  std::optional<StepNeeds> needs = {};    ///< what this plan asks of each resource

  const Instruction& instruction(std::int32_t number) const { return nth(program->instructions, number); }
  double busy_seconds(Lane lane) const;
  /// What lives on the tier, in the order of time, each moment once; never more bytes than the tier's peak.
  std::vector<MemoryReading> memory(Tier tier) const;
};

/// The step's profile, given when its instructions run. Those that only steps which save perform are left
/// out, and those that end before they start.
StepProfile make_profile(const Program& placed, const RoundTimeline& round, std::string name = {});
/// Lets a step's times count from the start of its first instruction, which it returns, and adds what each
/// lane waited for.
double add_waits(const PlannedProgram& program, std::vector<InstructionTime>& times);
/// What a run did in the step that was recorded. REQUIRES: it is a step of this program.
StepProfile measured_profile(const PlannedProgram& program, const RecordedStep& recorded);
/// What a machine of these rates would do: a profile of each rank. REQUIRES: as of simulate_round().
std::vector<StepProfile> planned_profiles(std::span<const RankProgram> ranks, const MachineRates& rates);

}  // namespace strata
