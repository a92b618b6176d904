#include "engine/tools/report/step_time.h"

#include <algorithm>

#include "engine/model/model.h"

namespace strata {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

StepTime step_time(std::span<const StepReport> steps) {
  std::vector<double> overlapped, whole;
  for (const StepReport& step : steps) {
    if (!step.begins) {
      overlapped.push_back(step.seconds);
    } else {
      whole.push_back(step.seconds + step.drain_seconds);
    }
  }
  const bool is_overlapped = !overlapped.empty();
  if (!is_overlapped && whole.size() > 1) whole.erase(whole.begin());
  const std::vector<double>& samples = is_overlapped ? overlapped : whole;
  return {median(samples), std::ssize(samples), is_overlapped};
}

void SmoothedStepTime::add(const StepReport& step) {
  constexpr double kSmoothing = 0.2;
  if (step.begins && overlapped_) return;
  const bool is_first = seconds_ == 0 || (!step.begins && !overlapped_);
  overlapped_ = !step.begins;
  seconds_ = is_first ? step.seconds : (1 - kSmoothing) * seconds_ + kSmoothing * step.seconds;
}

}  // namespace strata
