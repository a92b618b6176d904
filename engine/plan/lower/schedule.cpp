#include "engine/plan/lower/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/lower/pipeline.h"

namespace strata {
namespace {

/// The units of a chunk: first, and behind the last.
std::pair<std::int32_t, std::int32_t> units_of_chunk(const PipelinePart& pipeline, std::int32_t chunk,
                                                     std::int32_t units) {
  const auto c = static_cast<std::size_t>(chunk);
  return {pipeline.first_units[c], c + 1 < pipeline.first_units.size() ? pipeline.first_units[c + 1] : units};
}

/// The stage's end of a message.
Visit visit_of(const BoundaryMessage& message, const PipelinePart& pipeline) {
  const bool sends = message.from == pipeline.stage;
  return {.pass = sends ? Pass::send : Pass::receive,
          .unit = nth(pipeline.first_units, message.chunk),
          .microbatch = message.microbatch,
          .message = message.is_gradient ? Message::input_gradient : Message::input,
          .stage = sends ? message.to : message.from};
}

class TrainingSchedule {
 public:
  TrainingSchedule(const Strategy& strategy, const std::vector<UnitWork>& work)
      : strategy_(strategy),
        work_(work),
        was_visited_(work.size(), 0),
        is_asynchronous_(strategy.is_asynchronous()),
        units_(static_cast<std::int32_t>(work.size())),
        microbatches_(static_cast<std::int32_t>(strategy.microbatches)) {}

  Schedule make() {
    strategy_.mesh.pipeline > 1 ? passes_of_stage() : passes_in_order();
    if (is_asynchronous_) serves_ = Serves::step_before;
    // The loss waits for all stages, which then no update waits for that need not.
    const bool are_updates_first = is_asynchronous_ && !strategy_.global_norm;
    if (!are_updates_first) add({Pass::loss});
    if (!updates_each_microbatch()) update_rest();
    if (are_updates_first) add({Pass::loss});
    if (!strategy_.global_norm) add({Pass::gradient_norm});
    send_copies();
    return std::move(schedule_);
  }

 private:
  void add(Visit visit) {
    if (is_asynchronous_) visit.serves = serves_;
    schedule_.push_back(visit);
  }
  const UnitWork& work(std::int32_t u) const { return nth(work_, u); }
  bool on_device(std::int32_t u) const { return nth(strategy_.state, u) == Tier::device; }
  bool has_backward(std::int32_t u) const { return work(u).backward; }
  bool is_updated(std::int32_t u) const { return strategy_.has(u) && work(u).update; }
  /// No backward pass of another unit follows its own.
  bool is_last_backward(std::int32_t u) const {
    while (--u >= 0)
      if (strategy_.has(u) && has_backward(u)) return false;
    return true;
  }
  /// In stage 1 every rank keeps its gradients whole until the step's end.
  bool reduces_last() const { return strategy_.mesh.shard > 1 && strategy_.zero_stage == 1; }

  void passes_in_order() {
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
  }

  void passes_of_stage() {
    const PipelineShape shape = pipeline_shape(strategy_, microbatches_);
    ahead_ = passes_ahead(shape, strategy_.pipeline.stage);
    const auto steps = training_round(shape);
    for (const StageStep& step : nth(steps, strategy_.pipeline.stage)) {
      serves_ = step.serves;
      if (step.is_message) {
        message(step.message);
      } else {
        pass_chunk(step.pass);
        if (updates_each_microbatch() && step.pass.pass != Pass::forward) {
          update_rest();
          // Behind it the next step's passes may come, and all stages meet only at the round's end.
          if (step.pass.microbatch == microbatches_ - 1) add({Pass::sums});
        }
      }
    }
    if (has_trained_copy()) add(message_of(Pass::send, Message::gradient));
  }

  void pass_chunk(const ChunkPass& pass) {
    const auto [first, end] = units_of_chunk(strategy_.pipeline, pass.chunk, units_);
    if (pass.pass == Pass::forward) {
      if (is_asynchronous_) add({.pass = Pass::load, .microbatch = pass.microbatch});
      for (std::int32_t u = first; u < std::min(end, units_ - 1); ++u) forward(u, pass.microbatch);
      return;
    }
    for (std::int32_t u = end - 1; u >= first; --u) {
      if (pass.pass == Pass::backward) {
        backward(u, pass.microbatch);
      } else {
        part_of_backward(u, pass.microbatch, pass.pass);
      }
    }
  }

  /// A gradient that nobody below wants is not sent.
  void message(const BoundaryMessage& message) {
    const Visit visit = visit_of(message, strategy_.pipeline);
    if (visit.message == Message::input_gradient && !has_backward(visit.unit - 1)) return;
    add(visit);
  }

  /// Between the stage of a unit and the one that has a copy of its parameters.
  Visit message_of(Pass pass, Message message) const {
    const auto& [copied, stage] = strategy_.pipeline.copy;
    return {.pass = pass,
            .unit = copied,
            .message = message,
            .stage = strategy_.has(copied) ? stage : strategy_.stage_of(copied)};
  }
  bool has_trained_copy() const { return strategy_.has_copy() && work(strategy_.pipeline.copy.unit).update; }

  /// Before a unit's first pass.
  void update_late(std::int32_t u) {
    if (std::exchange(nth(was_visited_, u), 1)) return;
    if (is_updated(u) && strategy_.updates_late_of(u))
      add({.pass = Pass::update, .unit = u, .serves = Serves::step_before});
  }

  void forward(std::int32_t u, std::int32_t mb) {
    update_late(u);
    add({.pass = Pass::forward, .unit = u, .microbatch = mb, .stash = stash_of(Pass::forward, mb)});
  }

  bool updates_each_microbatch() const { return strategy_.updates() > 1; }
  /// What a pass of the microbatch uses if its unit is updated.
  std::int32_t stash_of(Pass pass, std::int32_t mb) const {
    if (!is_asynchronous_) return -1;
    if (updates_each_microbatch()) return pass == Pass::forward || ahead_ == 0 ? -1 : mb;
    return serves_ == Serves::step_before ? 0 : -1;
  }

  /// The last unit's includes its forward pass.
  void backward(std::int32_t u, std::int32_t mb) {
    if (!has_backward(u)) return;
    update_late(u);
    if (!strategy_.divides_backward) {
      add({.pass = Pass::backward, .unit = u, .microbatch = mb, .stash = stash_of(Pass::backward, mb)});
    } else {
      if (work(u).input_gradient) add({Pass::input_gradient, u, mb});
      if (work(u).weight_gradient) add({Pass::weight_gradient, u, mb});
    }
    updated_for_ = mb;
    if (mb == microbatches_ - 1 || updates_each_microbatch()) gradient_is_done(u);
  }

  void part_of_backward(std::int32_t u, std::int32_t mb, Pass part) {
    if (!has_backward(u)) return;
    update_late(u);
    const bool is_input = part == Pass::input_gradient, divides = work(u).weight_gradient;
    if (is_input ? work(u).input_gradient : divides) add({part, u, mb});
    if (mb == microbatches_ - 1 && is_input != divides) gradient_is_done(u);
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
    if (strategy_.is_copied(u)) add(message_of(Pass::receive, Message::gradient));
    add({Pass::finish_gradient, u});
    if (!reduces_last()) reduce_gradient(u);
  }

  void reduce_gradient(std::int32_t u) {
    add({.pass = Pass::reduce_gradient,
         .unit = u,
         .microbatch = updates_each_microbatch() ? updated_for_ : -1});
    if (!strategy_.global_norm && !on_device(u)) update(u);
  }

  /// Microbatches that have begun with the parameters as they are, or will begin, get a copy.
  void update(std::int32_t u) {
    if (!updates_each_microbatch()) {
      if (is_asynchronous_)
        schedule_.push_back({.pass = Pass::stash, .unit = u, .serves = Serves::step, .stash = 0});
      return add({Pass::update, u});
    }
    if (ahead_ > 0) {
      const std::int32_t begun = updated_for_ + ahead_, mb = begun % microbatches_;
      schedule_.push_back({.pass = Pass::stash,
                           .unit = u,
                           .microbatch = mb,
                           .serves = begun < microbatches_ ? serves_ : Serves::step,
                           .stash = mb});
    }
    add({.pass = Pass::update, .unit = u, .microbatch = updated_for_});
  }

  /// What waits for the last gradient of all.
  void update_rest() {
    if (reduces_last()) {
      for (std::int32_t u = units_ - 1; u >= 0; --u) {
        if (is_updated(u)) reduce_gradient(u);
      }
    }
    if (strategy_.global_norm) add({Pass::gradient_norm});
    for (std::int32_t u = 0; u < units_; ++u) {
      const bool is_at_end = (strategy_.global_norm && !strategy_.updates_late_of(u)) || on_device(u);
      if (is_updated(u) && is_at_end) update(u);
    }
  }

  /// All ranks have met before. Else a rank that still waited for another would wait for this, too.
  void send_copies() {
    const std::int32_t copied = strategy_.pipeline.copy.unit;
    if (copied >= 0 && is_updated(copied)) add(message_of(Pass::send, Message::parameter));
    if (has_trained_copy()) add(message_of(Pass::receive, Message::parameter));
  }

  const Strategy& strategy_;
  const std::vector<UnitWork>& work_;
  std::vector<char> was_visited_;
  const bool is_asynchronous_;
  std::int32_t units_, microbatches_;
  std::int32_t ahead_ = 0;  ///< forward passes, of backward ones
  Serves serves_ = Serves::step;
  std::int32_t updated_for_ = -1;  ///< the microbatch of the latest backward pass
  Schedule schedule_;
  std::int32_t unfinished_ = -1;  ///< unit whose gradient is done on this rank only
};

/// What a stage of a pipeline does of forward passes.
Schedule forward_of_stage(const Strategy& strategy, std::int32_t units, std::int32_t microbatches) {
  const PipelineShape shape = pipeline_shape(strategy, microbatches);
  const auto steps = with_messages(shape, validation_passes(shape));
  Schedule schedule;
  for (const StageStep& step : nth(steps, strategy.pipeline.stage)) {
    if (step.is_message) {
      schedule.push_back(visit_of(step.message, strategy.pipeline));
      continue;
    }
    const auto [first, end] = units_of_chunk(strategy.pipeline, step.pass.chunk, units);
    for (std::int32_t u = first; u < end; ++u) schedule.push_back({Pass::forward, u, step.pass.microbatch});
  }
  return schedule;
}

Schedule forward_schedule(const Strategy& strategy, std::int32_t units, std::int32_t microbatches) {
  if (strategy.mesh.pipeline > 1) return forward_of_stage(strategy, units, microbatches);
  Schedule schedule;
  if (strategy.order == Order::layer_major) {
    for (std::int32_t u = 0; u < units; ++u) {
      for (std::int32_t mb = 0; mb < microbatches; ++mb) schedule.push_back({Pass::forward, u, mb});
    }
  } else {
    for (std::int32_t mb = 0; mb < microbatches; ++mb) {
      for (std::int32_t u = 0; u < units; ++u) schedule.push_back({Pass::forward, u, mb});
    }
  }
  return schedule;
}

}  // namespace

std::string_view name_of(Pass pass) {
  constexpr std::array<std::string_view, 15> names = {
      "forward",         "backward", "input_gradient", "weight_gradient", "finish_gradient",
      "reduce_gradient", "sums",     "loss",           "next_tokens",     "gradient_norm",
      "stash",           "update",   "send",           "receive",         "load"};
  return nth(names, pass);
}

std::string_view name_of(Message message) {
  constexpr std::array<std::string_view, 5> names = {"none", "input", "input_gradient", "gradient",
                                                     "parameter"};
  return nth(names, message);
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

Schedule validation_schedule(const Strategy& strategy, std::int32_t units, std::int32_t microbatches) {
  Schedule schedule = forward_schedule(strategy, units, microbatches);
  schedule.push_back({Pass::loss});
  return schedule;
}

Schedule sampling_schedule(const Strategy& strategy, std::int32_t units) {
  Schedule schedule = forward_schedule(strategy, units, 1);
  schedule.push_back({Pass::next_tokens});
  return schedule;
}

std::string print(const Schedule& schedule, const std::vector<std::string>& units) {
  std::string text;
  for (const Visit& visit : schedule) {
    text += name_of(visit.pass);
    if (visit.message != Message::none) text += fmt::format(" {} of", name_of(visit.message));
    if (visit.unit >= 0) text += " " + nth(units, visit.unit);
    if (visit.microbatch >= 0) text += fmt::format(" mb={}", visit.microbatch);
    if (visit.message != Message::none)
      text += fmt::format(" {} stage {}", visit.pass == Pass::send ? "to" : "from", visit.stage);
    if (visit.stash >= 0 && visit.pass != Pass::stash) text += fmt::format(" stash={}", visit.stash);
    text += text_of(visit.serves);
    text += '\n';
  }
  return text;
}

}  // namespace strata
