// When things happen that lanes do in their order, from what each waits for, how long it takes and what it
// shares with others that run at the same time. A pure function: schedules and programs become tasks, and the
// same function finds the bubble of a pipeline, the time of a step, and a circle of ranks that wait for one
// another.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace strata {

/// What a task takes of a resource while it runs at full speed: 1 is all that there is of it.
struct ResourceShare {
  std::int32_t resource = -1;  ///< any number; -1: none
  double share = 0;
};

/// What a lane does. A lane is any number: of a rank, or of a lane of a rank.
struct LaneTask {
  std::int32_t lane = 0;
  double seconds = 0;                    ///< at full speed
  std::vector<std::int32_t> after = {};  ///< tasks that must have ended before, by their place in the list
  std::int32_t meeting = -1;  ///< tasks with the same number begin together: a message's two ends; or -1
  std::array<ResourceShare, 2> shares = {};
};

struct Timeline {
  struct Span {
    double start = 0, end = -1;  ///< as it is if the task never begins
    bool has_run() const { return end >= start; }
  };
  std::vector<Span> tasks;  ///< in the order of the list
  double seconds = 0;       ///< until the last has ended
  /// The next task of each lane that waits for ever: since it waits in a circle, or for such a one.
  std::vector<std::int32_t> stuck;
};

/// Each task begins as soon as all before it of its lane, those that it waits for, and those before the ones
/// that it meets have ended. Tasks that together want more than all of a resource are slowed down alike, so
/// that they take all of it; the slowest of a task's resources sets its speed.
Timeline run_tasks(const std::vector<LaneTask>& tasks);

}  // namespace strata
