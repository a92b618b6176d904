// What lives on each tier while a run goes on, round after round: rounds overlap, so what lives of one when
// the next has begun is counted with it. Figures are those of StepProfile::memory(). Its memory does not
// grow with rounds. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/program/program.h"
#include "engine/run/execute/recorded_step.h"

namespace strata {

class MemoryTrack {
 public:
  using ByKind = EnumArray<BufferKind, Bytes>;
  /// Told what lives on a tier from a moment on. Moments come in their order.
  using OnReading = std::function<void(std::int64_t nanoseconds, Tier tier, const ByKind& by_kind)>;

  /// REQUIRES: the program is placed, and outlives this.
  explicit MemoryTrack(const Program& program);

  /// A round whose first instruction begins at `begin`, from which `times` count. What it leaves for later
  /// moments is told by the next call. `follows`: it is the one behind the round before.
  void add(const std::vector<InstructionTime>& times, std::int64_t begin, bool follows,
           const OnReading& on_reading);
  /// Tells all that is left.
  void finish(const OnReading& on_reading);

  /// What it keeps.
  Bytes bytes() const;

 private:
  struct Change {
    std::int64_t nanoseconds = 0;
    BufferId buffer = -1;
    bool begins = false;
  };
  /// A buffer that does not stay throughout.
  struct Life {
    BufferId buffer = -1;
    std::int32_t maker = -1, last_user = -1;
    bool wraps = false;  ///< the last user is of the round behind the maker's
  };

  void begin_anew(const std::vector<InstructionTime>& times, std::int64_t begin, const OnReading& on_reading);
  void tell_until(std::int64_t nanoseconds, const OnReading& on_reading);
  void change(BufferId buffer, bool begins);

  const Program& program_;
  EnumArray<Tier, ByKind> always_, now_;
  std::vector<Life> lives_;
  std::vector<double> ends_;     ///< by buffer, of the round at hand
  std::vector<Change> changes_;  ///< not told yet
};

}  // namespace strata
