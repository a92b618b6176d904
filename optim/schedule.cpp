#include "optim/schedule.h"

#include <cmath>
#include <numbers>

namespace strata {
namespace {

/// How much of peak - minimum is left at `progress` in [0, 1] of the way from warm-up to the end.
double remaining(ScheduleType type, double progress) {
  switch (type) {
    case ScheduleType::constant:
      return 1;
    case ScheduleType::linear:
      return 1 - progress;
    case ScheduleType::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return 1;
}

}  // namespace

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step) {
  if (step < schedule.warmup) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup + 1);
  }
  if (schedule.type == ScheduleType::constant || step == schedule.warmup) return schedule.peak;
  const double minimum = schedule.minimum_ratio * schedule.peak;
  const std::int64_t last = schedule.steps - 1;
  if (step >= last) return minimum;
  const double progress =
      static_cast<double>(step - schedule.warmup) / static_cast<double>(last - schedule.warmup);
  return minimum + (schedule.peak - minimum) * remaining(schedule.type, progress);
}

}  // namespace strata
