#include "engine/plan/lower/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/plan/program/tasks.h"

namespace strata {
namespace {

using StagePasses = std::vector<ChunkPass>;

/// Everything forward, everything backward: chunk after chunk, and a chunk's microbatches one after another.
StagePasses breadth_first(const PipelineShape& shape, std::int32_t stage) {
  StagePasses passes;
  const auto add = [&](Pass pass, std::int32_t chunk) {
    for (std::int32_t mb = 0; mb < shape.microbatches; ++mb)
      passes.push_back({pass, chunk * shape.stages + stage, mb});
  };
  for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) add(Pass::forward, chunk);
  for (std::int32_t chunk = shape.chunks - 1; chunk >= 0; --chunk) add(Pass::backward, chunk);
  return passes;
}

/// As many passes forward as bring the first gradient back, then one forward and one backward (Narayanan et
/// al. 2021). The stages take microbatches in groups of as many as there are stages, each through all chunks.
StagePasses interleaved(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t stages = shape.stages, chunks = shape.chunks, all = shape.microbatches * chunks;
  const bool is_plain = chunks == 1;
  const std::int32_t ahead = is_plain ? stages - stage - 1 : 2 * (stages - stage - 1) + (chunks - 1) * stages;
  const std::int32_t warmup = std::min(ahead, all);
  StagePasses passes;
  const auto add = [&](Pass pass, std::int32_t number) {
    const std::int32_t turn = number % (stages * chunks) / stages;
    const std::int32_t chunk = pass == Pass::forward ? turn : chunks - 1 - turn;
    passes.push_back({pass, chunk * stages + stage, number / (stages * chunks) * stages + number % stages});
  };
  for (std::int32_t i = 0; i < warmup; ++i) add(Pass::forward, i);
  for (std::int32_t i = warmup; i < all; ++i) {
    add(Pass::forward, i);
    add(Pass::backward, i - warmup);
  }
  for (std::int32_t i = all - warmup; i < all; ++i) add(Pass::backward, i);
  return passes;
}

/// ZB-H1 (Qi et al. 2023): 1f1b whose stages put weight gradients off, the later a stage the longer, and do
/// them where they would wait for a gradient.
StagePasses zero_bubble(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t all = shape.microbatches, warmup = std::min(shape.stages - stage - 1, all);
  StagePasses passes;
  std::int32_t weights = 0;
  const auto add = [&](Pass pass, std::int32_t microbatch) { passes.push_back({pass, stage, microbatch}); };
  for (std::int32_t mb = 0; mb < warmup; ++mb) add(Pass::forward, mb);
  for (std::int32_t mb = 0; mb < all; ++mb) {
    const bool is_steady = warmup + mb < all;
    if (is_steady) add(Pass::forward, warmup + mb);
    add(Pass::input_gradient, mb);
    if (!is_steady || mb >= stage) add(Pass::weight_gradient, weights++);
  }
  while (weights < all) add(Pass::weight_gradient, weights++);
  return passes;
}

StagePasses passes_of_stage(const PipelineShape& shape, std::int32_t stage) {
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::breadth_first:
      return breadth_first(shape, stage);
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::interleaved:
    case PipelineSchedule::pipedream:
    case PipelineSchedule::pipedream_2bw:
      return interleaved(shape, stage);
    case PipelineSchedule::zero_bubble:
      return zero_bubble(shape, stage);
  }
  throw std::logic_error("no such schedule");
}

double units_of_time(Pass pass) {
  return pass == Pass::backward ? 2 : 1;
}

/// Which gradient others wait for.
bool makes_input_gradient(Pass pass) {
  return pass == Pass::backward || pass == Pass::input_gradient;
}

std::string text_of(const ChunkPass& pass) {
  return fmt::format("{} of chunk {} for microbatch {}", name_of(pass.pass), pass.chunk, pass.microbatch);
}

/// The number of each pass, in the order of stages.
class Numbers {
 public:
  explicit Numbers(const PipelinePasses& passes) {
    std::int32_t number = 0;
    for (const StagePasses& stage : passes) {
      for (const ChunkPass& pass : stage) {
        of_[key(pass.chunk, pass.microbatch, kind(pass.pass))] = number++;
        all_.push_back(pass);
      }
    }
  }

  const std::vector<ChunkPass>& all() const { return all_; }
  std::int32_t forward(std::int32_t chunk, std::int32_t microbatch) const {
    return find(chunk, microbatch, Kind::forward);
  }
  std::int32_t gradient(std::int32_t chunk, std::int32_t microbatch) const {
    return find(chunk, microbatch, Kind::gradient);
  }
  /// What it cannot begin before, on whatever stage.
  std::vector<std::int32_t> needs(const ChunkPass& pass, std::int32_t last_chunk) const {
    const auto& [kind_of, chunk, mb] = pass;
    if (kind_of == Pass::forward)
      return chunk == 0 ? std::vector<std::int32_t>() : std::vector{forward(chunk - 1, mb)};
    if (kind_of == Pass::weight_gradient) return {gradient(chunk, mb)};
    std::vector<std::int32_t> needs = {forward(chunk, mb)};
    if (chunk < last_chunk) needs.push_back(gradient(chunk + 1, mb));
    return needs;
  }

 private:
  enum class Kind : std::uint8_t { forward, gradient, weights };
  using Key = std::tuple<std::int32_t, std::int32_t, Kind>;
  static Key key(std::int32_t chunk, std::int32_t microbatch, Kind kind) { return {chunk, microbatch, kind}; }
  static Kind kind(Pass pass) {
    return pass == Pass::forward        ? Kind::forward
           : makes_input_gradient(pass) ? Kind::gradient
                                        : Kind::weights;
  }
  std::int32_t find(std::int32_t chunk, std::int32_t microbatch, Kind kind) const {
    return of_.at(key(chunk, microbatch, kind));
  }

  std::map<Key, std::int32_t> of_;
  std::vector<ChunkPass> all_;
};

std::int32_t next_multiple_of(std::int32_t of, std::int32_t number) {
  return (number + of - 1) / of * of;
}

}  // namespace

PipelineShape pipeline_shape(const Strategy& strategy, std::int64_t microbatches) {
  const auto stages = static_cast<std::int32_t>(strategy.mesh.pipeline);
  return {strategy.pipeline.schedule, stages,
          static_cast<std::int32_t>(strategy.pipeline.first_units.size()) / stages,
          static_cast<std::int32_t>(microbatches)};
}

std::string check_pipeline(const PipelineShape& shape) {
  const auto& [schedule, stages, chunks, microbatches] = shape;
  const bool takes_chunks =
      schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::breadth_first;
  if (chunks > 1 && !takes_chunks)
    return fmt::format(
        "{} chunks of units on each stage need parallel.schedule interleaved or breadth_first; with another "
        "one leave parallel.chunks out",
        chunks);
  if (schedule == PipelineSchedule::interleaved && chunks > 1 && microbatches % stages != 0)
    return fmt::format(
        "interleaved takes microbatches in groups of parallel.pipeline, {}, and a step has {} on each data "
        "rank; {} would fit, or another parallel.schedule",
        stages, microbatches, next_multiple_of(stages, microbatches));
  if (is_asynchronous(schedule) && microbatches < stages)
    return fmt::format(
        "pipedream and pipedream_2bw need at least as many microbatches in a step as parallel.pipeline, {}, "
        "and a step has {} on each data rank",
        stages, microbatches);
  return "";
}

std::int32_t passes_ahead(const PipelineShape& shape, std::int32_t stage) {
  return shape.stages - stage - 1;
}

PipelinePasses training_passes(const PipelineShape& shape) {
  PipelinePasses passes;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) passes.push_back(passes_of_stage(shape, stage));
  return passes;
}

PipelinePasses validation_passes(const PipelineShape& shape) {
  PipelinePasses passes;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    StagePasses all = breadth_first(shape, stage);
    all.resize(all.size() / 2);
    passes.push_back(std::move(all));
  }
  return passes;
}

std::vector<std::vector<TimedPass>> pipeline_timeline(const PipelineShape& shape,
                                                      const PipelinePasses& passes) {
  const Numbers numbers(passes);
  std::vector<LaneTask> tasks;
  for (const ChunkPass& pass : numbers.all()) {
    tasks.push_back({.lane = shape.stage_of(pass.chunk),
                     .seconds = units_of_time(pass.pass),
                     .after = numbers.needs(pass, shape.all_chunks() - 1)});
  }
  const Timeline timeline = run_tasks(tasks);
  if (!timeline.stuck.empty()) {
    std::string waiting;
    for (const std::int32_t task : timeline.stuck)
      waiting += (waiting.empty() ? "" : ", ") + text_of(nth(numbers.all(), task));
    throw std::logic_error("the stages of a pipeline wait for each other in a circle: " + waiting);
  }
  std::vector<std::vector<TimedPass>> result;
  std::size_t number = 0;
  for (const StagePasses& stage : passes) {
    std::vector<TimedPass>& timed = result.emplace_back();
    for (const ChunkPass& pass : stage) {
      const Timeline::Span& span = timeline.tasks[number++];
      timed.push_back({pass, span.start, span.end});
    }
  }
  return result;
}

namespace {

/// What happens at one time, in the order of all stages: messages before the passes that begin then.
struct TimedStep {
  double time = 0;
  bool is_pass = false;
  std::int32_t number = 0;
  StageStep step;
};

class MessageOrder {
 public:
  MessageOrder(const PipelineShape& shape, const PipelinePasses& passes)
      : shape_(shape), passes_(passes), timeline_(pipeline_timeline(shape, passes)) {
    for (const std::vector<TimedPass>& stage : timeline_) {
      for (std::size_t i = 0; i < stage.size(); ++i) {
        const ChunkPass& pass = stage[i].pass;
        if (pass.pass == Pass::weight_gradient) continue;
        pass_times_[{pass.chunk, pass.microbatch, pass.pass == Pass::forward}] = {
            stage[i].end, i == 0 ? 0 : stage[i - 1].start};
      }
    }
  }

  std::vector<std::vector<StageStep>> make() {
    for (const std::vector<TimedPass>& stage : timeline_) {
      for (const TimedPass& pass : stage) add(pass.start, true, {.pass = pass.pass});
    }
    for (std::int32_t chunk = 1; chunk < shape_.all_chunks(); ++chunk) {
      for (std::int32_t mb = 0; mb < shape_.microbatches; ++mb) {
        add_message(false, chunk, mb);
        if (has_backward()) add_message(true, chunk, mb);
      }
    }
    std::ranges::sort(steps_, {},
                      [](const TimedStep& step) { return std::tuple(step.time, step.is_pass, step.number); });
    auto result = sized<std::vector<std::vector<StageStep>>>(shape_.stages);
    for (const TimedStep& timed : steps_) {
      const auto of = [&](std::int32_t stage) -> std::vector<StageStep>& { return nth(result, stage); };
      if (timed.is_pass) {
        of(shape_.stage_of(timed.step.pass.chunk)).push_back(timed.step);
      } else {
        of(timed.step.message.from).push_back(timed.step);
        of(timed.step.message.to).push_back(timed.step);
      }
    }
    return result;
  }

 private:
  struct PassTimes {
    double end = 0;
    double start_of_pass_before = 0;  ///< on its stage
  };

  bool has_backward() const {
    return std::ranges::any_of(passes_[0], [](const ChunkPass& pass) { return pass.pass != Pass::forward; });
  }

  void add(double time, bool is_pass, StageStep step) {
    step.time = time;
    steps_.push_back({time, is_pass, static_cast<std::int32_t>(steps_.size()), step});
  }

  void add_message(bool is_gradient, std::int32_t chunk, std::int32_t mb) {
    const std::int32_t from = is_gradient ? chunk : chunk - 1, to = is_gradient ? chunk - 1 : chunk;
    const PassTimes& made = pass_times_.at({from, mb, !is_gradient});
    const PassTimes& used = pass_times_.at({to, mb, !is_gradient});
    add(std::max(made.end, used.start_of_pass_before), false,
        {.is_message = true,
         .message = {is_gradient, chunk, mb, shape_.stage_of(from), shape_.stage_of(to)}});
  }

  const PipelineShape& shape_;
  const PipelinePasses& passes_;
  std::vector<std::vector<TimedPass>> timeline_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, PassTimes>
      pass_times_;  ///< by chunk, microbatch, forward
  std::vector<TimedStep> steps_;
};

}  // namespace

std::vector<std::vector<StageStep>> with_messages(const PipelineShape& shape, const PipelinePasses& passes) {
  return MessageOrder(shape, passes).make();
}

std::vector<std::vector<StageStep>> training_round(const PipelineShape& shape) {
  if (!is_asynchronous(shape.schedule)) return with_messages(shape, training_passes(shape));
  // One step that has others before it and behind it.
  constexpr std::int32_t kSteps = 3, kStep = 1;
  PipelineShape run = shape;
  run.microbatches *= kSteps;
  std::vector<std::vector<StageStep>> stages = with_messages(run, training_passes(run));
  const auto step_of = [&](const StageStep& step) {
    return (step.is_message ? step.message.microbatch : step.pass.microbatch) / shape.microbatches;
  };
  const auto behind_last = [&](std::vector<StageStep>& stage, std::int32_t number) {
    return std::find_if(stage.rbegin(), stage.rend(),
                        [&](const StageStep& step) { return step_of(step) <= number; })
        .base();
  };
  const auto time_behind_last_of_first_stage = [&](std::int32_t number) {
    const StageStep& last = *std::prev(behind_last(stages[0], number));
    return last.time + units_of_time(last.pass.pass);
  };
  const std::array border_times = {time_behind_last_of_first_stage(kStep - 1),
                                   time_behind_last_of_first_stage(kStep)};
  // Stages meet at borders, where no message may be on its way: what the stage before has sent is received.
  const auto border = [&](std::int32_t number, std::int32_t behind) {
    std::vector<StageStep>& stage = nth(stages, number);
    if (shape.schedule == PipelineSchedule::pipedream)
      return std::ranges::lower_bound(stage, nth(border_times, behind), {}, &StageStep::time);
    const auto found = behind_last(stage, kStep - 1 + behind);
    const bool is_next_input = found != stage.end() && found->is_message && found->message.to == number;
    return is_next_input ? found + 1 : found;
  };
  for (std::int32_t number = 0; number < shape.stages; ++number) {
    std::vector<StageStep>& stage = nth(stages, number);
    stage = {border(number, 0), border(number, 1)};
    for (StageStep& step : stage) {
      step.serves = step_of(step) == kStep ? Serves::step_before : Serves::step;
      (step.is_message ? step.message.microbatch : step.pass.microbatch) %= shape.microbatches;
    }
  }
  return stages;
}

std::int32_t most_in_flight(const std::vector<ChunkPass>& passes) {
  std::int32_t now = 0, most = 0;
  for (const ChunkPass& pass : passes) {
    if (pass.pass == Pass::forward) most = std::max(most, ++now);
    if (pass.pass == Pass::backward || pass.pass == Pass::weight_gradient) --now;
  }
  return most;
}

std::string print_table(const PipelineShape& shape, const PipelinePasses& passes) {
  constexpr std::string_view kLetters = "FBIW";  // in the order of Pass
  const auto cell = [&](const ChunkPass& pass) {
    const std::string chunk = shape.chunks > 1 ? fmt::format(".{}", pass.chunk) : "";
    return fmt::format("{}{}{}", nth(kLetters, pass.pass), pass.microbatch, chunk);
  };
  std::size_t width = 0;
  for (const StagePasses& stage : passes)
    for (const ChunkPass& pass : stage) width = std::max(width, cell(pass).size() + 1);
  std::string text;
  const std::vector<std::vector<TimedPass>> timeline = pipeline_timeline(shape, passes);
  for (std::size_t stage = 0; stage < timeline.size(); ++stage) {
    text += fmt::format("stage {:<4}", stage);
    double now = 0;
    const auto pad_to = [&](double time, char with) {
      text.append(width * static_cast<std::size_t>(time - now), with);
      now = time;
    };
    for (const TimedPass& timed : timeline[stage]) {
      pad_to(timed.start, ' ');
      const std::string name = cell(timed.pass);
      const auto units = static_cast<std::size_t>(timed.end - timed.start);
      text += name + std::string(units * width - name.size() - 1, units > 1 ? '-' : ' ') + ' ';
      now = timed.end;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace strata
