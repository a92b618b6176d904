// Learning-rate schedules as functions of the step alone, so that a resumed run needs nothing but its step.
// Only plateau asks for more: what validations have shown, which checkpoints keep.
// The warm-up is nanoGPT's: no step has 0, and the first one behind it has the peak. The last step has the
// minimum exactly; schedulers of torch and transformers, which are stepped after each update, would have it
// only in the step that follows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/schedule_type.h"
#include "optim/plateau.h"

namespace strata {

struct LearningRateSchedule {
  struct Point {
    std::int64_t step;
    double factor;
  };

  ScheduleType type = ScheduleType::constant;
  double peak = 0;           ///< learning rate after warm-up
  double minimum_ratio = 0;  ///< the minimum is minimum_ratio · peak
  std::int64_t warmup = 0;   ///< steps; step s (from 0) of the warm-up has peak · (s + 1) / (warmup + 1)
  std::int64_t steps = 0;    ///< steps of the whole run
  double power = 1;
  std::int64_t cycles = 1;       ///< at least 1, and steps · cycles is an int64
  std::int64_t decay_steps = 1;  ///< at least 1
  DecayShape shape = DecayShape::linear;
  std::int64_t timescale = 1;  ///< steps; at least 1
  std::vector<Point> points =
      {};  ///< their steps rise; before and behind them the nearest one's factor holds
  PlateauSettings plateau = {};
};

/// The learning rate of step `step`, counted from 0. The schedule plateau reads what validations have shown.
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, const Plateau& plateau = {});

}  // namespace strata
