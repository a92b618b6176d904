// What each operation of a program does, given where the buffers are. Lanes of the device issue to their
// streams, and the host's lanes do the work. An instruction has the number and the type of its elements.
// UnitShare has what differs between ranks. One Operations serves one program; each lane calls it from its
// own thread for its own instructions.
#pragma once

#include <cstdint>

#include "engine/run/execute/operations/context.h"

namespace strata {

class Operations {
 public:
  using Setup = OperationSetup;
  explicit Operations(Setup setup);

  /// One instruction of step `step`: issued to its lane's stream, or done when this returns.
  void perform(const Instruction& instruction, std::int64_t step);

  /// Bytes that this rank has sent so far in the instruction's group of ranks, by the group's own count; 0
  /// if the instruction has no group.
  Bytes sent_bytes(const Instruction& instruction) const;

  /// What instructions have touched and copied since the call before, counted where it happened; without what
  /// ranks sent. While no lane runs.
  MeterCount take_count();

  /// Set by loss and grad_norm: both run on the cpu lane.
  const StepReport& report() const { return on_.report; }
  Counters& counters() { return on_.counters; }
  const Counters& counters() const { return on_.counters; }

 private:
  OperationContext on_;
};

}  // namespace strata
