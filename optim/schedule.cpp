#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

namespace strata {
namespace {

double half_cosine(double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double left_of(DecayShape shape, double progress) {
  switch (shape) {
    case DecayShape::linear:
      return 1 - progress;
    case DecayShape::cosine:
      return half_cosine(progress);
    case DecayShape::sqrt:
      return 1 - std::sqrt(progress);
  }
  return 1;
}

/// From the peak in step `first` to the minimum in step `last`. `left` says how much of their difference is
/// left at a part of the way.
template <typename Left>
double falling(const LearningRateSchedule& schedule, std::int64_t first, std::int64_t last, std::int64_t step,
               const Left& left) {
  const double minimum = schedule.minimum_ratio * schedule.peak;
  if (step <= first) return schedule.peak;
  if (step >= last) return minimum;
  const double progress = static_cast<double>(step - first) / static_cast<double>(last - first);
  return minimum + (schedule.peak - minimum) * left(progress);
}

/// The cycles share the steps behind the warm-up as evenly as whole steps can.
double with_restarts(const LearningRateSchedule& schedule, std::int64_t step) {
  const std::int64_t first = schedule.warmup, steps = schedule.steps - first;
  if (step >= schedule.steps - 1) return falling(schedule, first, schedule.steps - 1, step, half_cosine);
  const std::int64_t cycle = ((step - first + 1) * schedule.cycles - 1) / steps;
  const auto begin = [&](std::int64_t number) { return first + number * steps / schedule.cycles; };
  return falling(schedule, begin(cycle), begin(cycle + 1) - 1, step, half_cosine);
}

double factor_between(const std::vector<LearningRateSchedule::Point>& points, std::int64_t step) {
  const auto next = std::ranges::find_if(points, [&](const auto& point) { return point.step >= step; });
  if (next == points.end()) return points.back().factor;
  if (next == points.begin() || next->step == step) return next->factor;
  const auto& before = *std::prev(next);
  const double progress =
      static_cast<double>(step - before.step) / static_cast<double>(next->step - before.step);
  return before.factor + (next->factor - before.factor) * progress;
}

double behind_warmup(const LearningRateSchedule& schedule, std::int64_t step) {
  const std::int64_t first = schedule.warmup, last = schedule.steps - 1;
  switch (schedule.type) {
    case ScheduleType::constant:
    case ScheduleType::piecewise:
    case ScheduleType::plateau:
      return schedule.peak;
    case ScheduleType::linear:
      return falling(schedule, first, last, step, [](double progress) { return 1 - progress; });
    case ScheduleType::cosine:
      return falling(schedule, first, last, step, half_cosine);
    case ScheduleType::polynomial:
      return falling(schedule, first, last, step,
                     [&](double progress) { return std::pow(1 - progress, schedule.power); });
    case ScheduleType::cosine_restarts:
      return with_restarts(schedule, step);
    case ScheduleType::wsd:
      return falling(schedule, std::max(first, last - schedule.decay_steps), last, step,
                     [&](double progress) { return left_of(schedule.shape, progress); });
    case ScheduleType::inverse_sqrt: {
      const auto timescale = static_cast<double>(schedule.timescale);
      const double factor = std::sqrt(timescale / (timescale + static_cast<double>(step - first)));
      return schedule.peak * std::max(schedule.minimum_ratio, factor);
    }
  }
  return schedule.peak;
}

}  // namespace

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, const Plateau& plateau) {
  const double rate = step < schedule.warmup ? schedule.peak * static_cast<double>(step + 1) /
                                                   static_cast<double>(schedule.warmup + 1)
                                             : behind_warmup(schedule, step);
  switch (schedule.type) {
    case ScheduleType::piecewise:
      return rate * factor_between(schedule.points, step);
    case ScheduleType::plateau:
      return rate * std::max(schedule.minimum_ratio, plateau_factor(schedule.plateau, plateau));
    default:
      return rate;
  }
}

}  // namespace strata
