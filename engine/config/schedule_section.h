// The section optimizer.schedule of a run file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

/// The learning rate of a step, as a factor on optimizer.lr.
struct SchedulePoint {
  std::int64_t step = 0;
  double factor = 1;
  friend bool operator==(const SchedulePoint&, const SchedulePoint&) = default;
};

struct ScheduleSection {
  ScheduleType type = ScheduleType::constant;
  std::int64_t warmup = 0;
  double minimum_ratio = 0.1;
  double decay_ratio = 0.2;                    ///< of wsd
  DecayShape shape = DecayShape::linear;       ///< of wsd
  double power = 2;                            ///< of polynomial
  std::optional<std::int64_t> timescale = {};  ///< of inverse_sqrt; read it by timescale_of()
  std::int64_t cycles = 1;                     ///< of cosine_restarts
  std::vector<SchedulePoint> points = {};      ///< of piecewise, in the order of their steps
  double factor = 0.5;                         ///< of plateau, with the three below: optim/plateau.h
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::int64_t cooldown = 0;
  std::int64_t asked_warmup = 0;  ///< of a warm-up that was cut (engine/config/run_length.h). No key sets it.
  friend bool operator==(const ScheduleSection&, const ScheduleSection&) = default;
};

/// The section's timescale, or as long as the warm-up, or 10,000 steps without one.
constexpr std::int64_t timescale_of(const ScheduleSection& schedule) {
  constexpr std::int64_t kWithoutWarmup = 10'000;
  return schedule.timescale.value_or(schedule.warmup > 0 ? schedule.warmup : kWithoutWarmup);
}

}  // namespace strata
