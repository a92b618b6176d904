#include "engine/config/run_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/config/run_config.h"
#include "engine/config/section_keys.h"

namespace strata {

void set_steps_of_epochs(RunConfig& config, std::int64_t sequences) {
  if (!config.train.epochs) return;
  const double steps = std::ceil(*config.train.epochs * static_cast<double>(sequences) /
                                 static_cast<double>(config.train.batch));
  if (steps > static_cast<double>(kLargestCount))
    throw ConfigError(
        fmt::format("train.epochs: {} epochs of {} sequences are {:.3g} steps; a run has at most {}",
                    *config.train.epochs, sequences, steps, kLargestCount));
  config.train.steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
  cut_warmup(config);
}

void cut_warmup(RunConfig& config) {
  ScheduleSection& schedule = config.schedule;
  if (schedule.warmup <= config.train.steps) return;
  constexpr std::int64_t kPartOfRun = 10;
  schedule.asked_warmup = schedule.warmup;
  schedule.warmup = config.train.steps / kPartOfRun;
}

std::string cut_warmup_text(const RunConfig& config) {
  const ScheduleSection& schedule = config.schedule;
  if (schedule.asked_warmup == 0) return "";
  return fmt::format(
      "optimizer.schedule.warmup: {} steps of warm-up are more than the run's {}, so it is cut to {}",
      schedule.asked_warmup, config.train.steps, schedule.warmup);
}

}  // namespace strata
