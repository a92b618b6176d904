#include "engine/plan/lower/schedule.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace strata {
namespace {

class TrainingSchedule {
 public:
  TrainingSchedule(const Strategy& strategy, const std::vector<UnitWork>& work)
      : strategy_(strategy),
        work_(work),
        units_(static_cast<std::int32_t>(work.size())),
        microbatches_(static_cast<std::int32_t>(strategy.microbatches)) {}

  Schedule make() {
    if (strategy_.order == Order::layer_major) {
      for (std::int32_t u = 0; u < units_ - 1; ++u) {
        for (std::int32_t mb = 0; mb < microbatches_; ++mb) forward(u, mb);
      }
      for (std::int32_t u = units_ - 1; u > 0; --u) {
        for (std::int32_t mb = 0; mb < microbatches_; ++mb) backward(u, mb);
      }
    } else {
      for (std::int32_t mb = 0; mb < microbatches_; ++mb) {
        for (std::int32_t u = 0; u < units_ - 1; ++u) forward(u, mb);
        for (std::int32_t u = units_ - 1; u > 0; --u) backward(u, mb);
      }
    }
    for (std::int32_t mb = 0; mb < microbatches_; ++mb) backward(0, mb);
    add(Pass::loss);
    finish_step();
    return std::move(schedule_);
  }

 private:
  void add(Pass pass, std::int32_t unit = -1, std::int32_t microbatch = -1, Serves serves = Serves::step) {
    schedule_.push_back({pass, unit, microbatch, serves});
  }
  bool on_device(std::int32_t u) const {
    return strategy_.state[static_cast<std::size_t>(u)] == Tier::device;
  }
  bool has_backward(std::int32_t u) const { return work_[static_cast<std::size_t>(u)].backward; }
  bool is_updated(std::int32_t u) const { return work_[static_cast<std::size_t>(u)].update; }
  /// No backward pass of another unit follows its own.
  bool is_last_backward(std::int32_t u) const {
    while (--u >= 0)
      if (has_backward(u)) return false;
    return true;
  }
  /// In stage 1 every rank keeps its gradients whole until the step's end.
  bool reduces_last() const { return strategy_.mesh.shard > 1 && strategy_.zero_stage == 1; }

  /// Before a unit's first pass.
  void update_late(std::int32_t u) {
    if (is_updated(u) && strategy_.updates_late_of(u)) add(Pass::update, u, -1, Serves::step_before);
  }

  void forward(std::int32_t u, std::int32_t mb) {
    if (mb == 0) update_late(u);
    add(Pass::forward, u, mb);
  }

  /// The last unit's includes its forward pass.
  void backward(std::int32_t u, std::int32_t mb) {
    if (!has_backward(u)) return;
    if (mb == 0 && u == units_ - 1) update_late(u);
    const UnitWork& work = work_[static_cast<std::size_t>(u)];
    if (!strategy_.divides_backward) {
      add(Pass::backward, u, mb);
    } else {
      if (work.input_gradient) add(Pass::input_gradient, u, mb);
      if (work.weight_gradient) add(Pass::weight_gradient, u, mb);
    }
    if (mb == microbatches_ - 1) gradient_is_done(u);
  }

  /// What other ranks' part in it takes may run beside the next unit's backward pass, if it stands behind
  /// that in the program.
  void gradient_is_done(std::int32_t u) {
    if (unfinished_ >= 0) finish_gradient(std::exchange(unfinished_, -1));
    if (!is_updated(u)) return;
    if (strategy_.delays_reduction && !is_last_backward(u)) {
      unfinished_ = u;
    } else {
      finish_gradient(u);
    }
  }

  void finish_gradient(std::int32_t u) {
    add(Pass::finish_gradient, u);
    if (!reduces_last()) reduce_gradient(u);
  }

  void reduce_gradient(std::int32_t u) {
    add(Pass::reduce_gradient, u);
    if (!strategy_.global_norm && !on_device(u)) add(Pass::update, u);
  }

  void finish_step() {
    if (reduces_last()) {
      for (std::int32_t u = units_ - 1; u >= 0; --u) {
        if (is_updated(u)) reduce_gradient(u);
      }
    }
    if (strategy_.global_norm) add(Pass::gradient_norm);
    for (std::int32_t u = 0; u < units_; ++u) {
      const bool is_at_end = (strategy_.global_norm && !strategy_.updates_late_of(u)) || on_device(u);
      if (is_updated(u) && is_at_end) add(Pass::update, u);
    }
    if (!strategy_.global_norm) add(Pass::gradient_norm);
  }

  const Strategy& strategy_;
  const std::vector<UnitWork>& work_;
  std::int32_t units_, microbatches_;
  Schedule schedule_;
  std::int32_t unfinished_ = -1;  ///< unit whose gradient is done on this rank only
};

}  // namespace

std::string_view name_of(Pass pass) {
  constexpr std::array<std::string_view, 9> names = {
      "forward",         "backward", "input_gradient", "weight_gradient", "finish_gradient",
      "reduce_gradient", "loss",     "gradient_norm",  "update"};
  return names[static_cast<std::size_t>(pass)];
}

std::vector<UnitWork> unit_work(const Model& model, const Strategy& strategy) {
  const auto compute = unit_compute(model, strategy.precision, strategy.microbatch);
  std::vector<UnitWork> work;
  for (const Unit& unit : model.units) {
    const UnitPasses::Level& passes = compute->passes(unit).saving_nothing();
    work.push_back({.backward = !passes.backward.is_empty(),
                    .update = unit.elements > 0,
                    .input_gradient = !passes.input_gradient.is_empty(),
                    .weight_gradient = !passes.weight_gradient.is_empty()});
  }
  return work;
}

Schedule training_schedule(const Strategy& strategy, const std::vector<UnitWork>& units) {
  return TrainingSchedule(strategy, units).make();
}

Schedule validation_schedule(Order order, std::int32_t units, std::int32_t microbatches) {
  Schedule schedule;
  if (order == Order::layer_major) {
    for (std::int32_t u = 0; u < units; ++u) {
      for (std::int32_t mb = 0; mb < microbatches; ++mb) schedule.push_back({Pass::forward, u, mb});
    }
  } else {
    for (std::int32_t mb = 0; mb < microbatches; ++mb) {
      for (std::int32_t u = 0; u < units; ++u) schedule.push_back({Pass::forward, u, mb});
    }
  }
  schedule.push_back({Pass::loss});
  return schedule;
}

std::string print(const Schedule& schedule, const std::vector<std::string>& units) {
  std::string text;
  for (const Visit& visit : schedule) {
    text += name_of(visit.pass);
    if (visit.unit >= 0) text += " " + units[static_cast<std::size_t>(visit.unit)];
    if (visit.microbatch >= 0) text += fmt::format(" mb={}", visit.microbatch);
    text += text_of(visit.serves);
    text += '\n';
  }
  return text;
}

}  // namespace strata
