// How long a step takes, from what steps report. In a run without pauses the updates of one step are made
// under the next, so the time from one report to the next holds the work of exactly one step. The first step
// after a pause has no updates to make, and the last one's are made while nothing else runs: their times are
// two parts of a step that did not overlap.
#pragma once

#include <span>
#include <vector>

#include "engine/run/execute/step_report.h"

namespace strata {

/// The middle value; of an even number of values the mean of the two in the middle. 0 without values.
double median(std::vector<double> values);

struct StepTime {
  double seconds = 0;        ///< the median
  std::int64_t samples = 0;  ///< it is the median of this many
  /// Whether steps ran without a pause between them. Otherwise each was begun and drained by itself, and its
  /// seconds are the sum of both.
  bool overlapped = false;
};

/// The steps that follow another without a pause; if there are none, the whole steps but the first, which
/// warms caches, or that one if it is all there is.
StepTime step_time(std::span<const StepReport> steps);

/// The same while a run goes on: the latest steps count most.
class SmoothedStepTime {
 public:
  void add(const StepReport& step);
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
  bool overlapped_ = false;
};

}  // namespace strata
