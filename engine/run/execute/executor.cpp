#include "engine/run/execute/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/at_work.h"
#include "base/error.h"
#include "base/nth.h"
#include "base/threads.h"
#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/run/execute/measure.h"

namespace strata {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Executor::Executor(const PlannedProgram& program, std::vector<ModelOperations> models,
                   const LaneStreams& streams, Options options)
    : program_(program),
      models_(std::move(models)),
      streams_(streams),
      options_(std::move(options)),
      issued_(program.program.instructions.size()),
      rounds_behind_(rounds_behind(program.program)) {
  std::vector<std::size_t> found(models_.size(), 0);
  own_.reserve(issued_.size());
  for (std::size_t i = 0; i < issued_.size(); ++i) {
    const Instruction& instruction = program.program.instructions[i];
    own_.push_back(&nth(models_, instruction.model).instructions->at(nth(found, instruction.model)++));
    labels_.push_back(title_of(program.program, instruction));
    if (Stream* stream = streams.find(instruction.lane))
      issued_[i] = {stream->make_event(), stream->make_event()};
    const bool takes_turns = issued_[i].end != nullptr && instruction.meets_ranks();
    turns_.push_back(takes_turns ? std::optional(turns_per_round_++) : std::nullopt);
  }
  if (options_.recorder != nullptr) options_.recorder->prepare(program_);
}

Executor::RunResult Executor::run(const std::vector<StepRange>& steps, const std::atomic<bool>& stop,
                                  const OnStep& on_step) {
  begin_run(steps);
  stop_ = &stop;
  on_step_ = &on_step;
  take_count();  // what others have moved since the run before
  begin_recording();
  last_report_ = Clock::now();
  last_reports_.assign(models_.size(), last_report_);
  if (options_.mode == LaneMode::serial) {
    run_serial();
  } else {
    const AtWork::Pause pause;
    on_threads(kLanes.size(), [this](std::size_t lane) { run_lane(kLanes[lane]); });
  }
  end_recording();
  {
    const std::lock_guard lock(mutex_);  // live() sees what was counted here or there
    measurements_.count.add(take_count());
  }
  if (error_) std::rethrow_exception(error_);
  RunResult result = {.completed_steps = {},
                      .tail_seconds = std::max(0.0, seconds_between(last_report_, idle_))};
  for (std::size_t m = 0; m < models_.size(); ++m)
    result.completed_steps.push_back(committed_[m] + 1 - steps[m].first);
  return result;
}

void Executor::begin_run(const std::vector<StepRange>& steps) {
  const std::lock_guard lock(mutex_);
  lanes_ = {};
  turns_taken_ = 0;
  committed_.clear();
  last_.clear();
  rounds_.models.clear();
  for (std::size_t m = 0; m < models_.size(); ++m) {
    committed_.push_back(steps[m].first - 1);
    last_.push_back(steps[m].first + steps[m].count - 1);
    rounds_.models.push_back(
        {.steps = steps[m], .saves = options_.saves.empty() ? SaveSchedule() : options_.saves[m]});
  }
  error_ = nullptr;
}

/// A device's clock and the host's count from one moment.
void Executor::begin_recording() {
  recording_ = {};
  if (options_.recorder == nullptr) return;
  if (Stream* stream = streams_.find(Lane::compute)) {
    if (!record_begin_) record_begin_ = stream->make_event();
    stream->record(*record_begin_);
    strata::wait_for(*record_begin_);
  }
  record_begin_time_ = Clock::now();
  using Nanoseconds = std::chrono::nanoseconds;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  options_.recorder->begin_run(rounds_, std::chrono::duration_cast<Nanoseconds>(since_1970).count());
}

void Executor::end_recording() {
  if (options_.recorder != nullptr) options_.recorder->end_run();
}

void Executor::begin_round(Lane lane, std::int64_t round) {
  if (options_.recorder != nullptr) recording_[lane] = options_.recorder->begin(lane, round);
}

/// What a device lane has issued it is through with when that was waited for.
void Executor::end_round(Lane lane) {
  RecordedStep* const step = std::exchange(recording_[lane], nullptr);
  if (step != nullptr && streams_.find(lane) == nullptr) options_.recorder->pass(lane, *step);
}

/// Models share streams, stores and with them what counts.
MeterCount Executor::take_count() {
  const auto any =
      std::ranges::find_if(models_, [](const auto& model) { return model.operations != nullptr; });
  return any->operations->take_count();
}

void Executor::run_serial() {
  try {
    const std::vector<Instruction>& instructions = program_.program.instructions;
    const auto goes_on = [&](std::int64_t round) {
      const std::lock_guard lock(mutex_);
      return !is_over(round);
    };
    for (std::int64_t round = 0; goes_on(round); ++round) {
      for (const Lane lane : kLanes) begin_round(lane, round);
      for (std::size_t i = 0; i < instructions.size() && goes_on(round); ++i) {
        const auto index = static_cast<std::int32_t>(i);
        const Lane lane = instructions[i].lane;
        note_doing(lane, Doing::performing, index, round);
        const bool was_performed = execute(lane, index, round);
        finish_previous(lane, index);
        note_doing(lane, Doing::nothing, index, round);
        if (was_performed && options_.observer) options_.observer(instructions[i]);
      }
      for (const Lane lane : kLanes) end_round(lane);
    }
  } catch (const std::exception& error) {
    fail(error);
  }
  for (const Lane lane : kLanes) leave(lane);
  idle_ = Clock::now();
}

/// It records nothing more in this run.
void Executor::leave(Lane lane) {
  if (options_.recorder != nullptr) options_.recorder->leave(lane);
}

void Executor::run_lane(Lane lane) {
  try {
    run_rounds(lane);
    wait_until_idle(lane);
  } catch (const std::exception& error) {
    fail(error);
  }
  leave(lane);
  const std::lock_guard lock(mutex_);
  lanes_[lane].doing = Doing::nothing;
  lanes_[lane].finished = true;
  if (lane != Lane::save) idle_ = Clock::now();
  wake_all();
}

void Executor::run_rounds(Lane lane) {
  const std::vector<std::int32_t>& instructions = program_.dependencies.lanes[lane];
  for (std::int64_t round = 0; !instructions.empty(); ++round) {
    begin_round(lane, round);
    for (const std::int32_t index : instructions) {
      if (!wait_until_ready(lane, index, round)) return;
      wait_for_events(lane, index, round);
      execute(lane, index, round);
      const std::lock_guard lock(mutex_);
      ++lanes_[lane].issued;
      if (nth(turns_, index)) ++turns_taken_;
      wake_ready();
    }
    end_round(lane);
  }
}

/// Until the device has finished what the lane issued.
void Executor::wait_until_idle(Lane lane) {
  for (const std::int32_t index : program_.dependencies.lanes[lane]) finish_previous(lane, index);
}

/// Whether the instruction was performed.
bool Executor::execute(Lane lane, std::int32_t index, std::int64_t round) {
  const Instruction& instruction = nth(program_.program.instructions, index);
  const bool is_performed = begin(instruction, round);
  const auto model = static_cast<std::size_t>(instruction.model);
  const Operations& operations = *models_[model].operations;
  const Instruction& own = *nth(own_, index);
  const AtWork at_work;
  const Bytes sent_before = operations.sent_bytes(own);
  try {
    if (Stream* stream = streams_.find(lane)) {
      finish_previous(lane, index);
      issue(*stream, lane, index, round, is_performed);
    } else if (is_performed) {
      const Clock::time_point start = Clock::now();
      perform(index, round);
      const Clock::time_point end = Clock::now();
      add_busy(lane, seconds_between(start, end));
      if (RecordedStep* step = recording_[lane]) {
        InstructionTime& time = nth(step->times, index);
        time.start = seconds_between(record_begin_time_, start);
        time.end = seconds_between(record_begin_time_, end);
      }
    }
  } catch (const EndedByRankError& error) {
    throw EndedByRankError(fmt::format("{}: {}", nth(labels_, index), error.what()));
  } catch (const CommError& error) {
    throw CommError(fmt::format("{}: {}", nth(labels_, index), error.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DeviceError(
        fmt::format("instruction failed: {}: {}", print(program_.program, instruction), error.what()));
  }
  count_sent(instruction, operations.sent_bytes(own) - sent_before);
  if (is_performed && instruction.effect == Effect::reports) {
    const Clock::time_point now = Clock::now();
    StepReport report = operations.report();
    report.seconds = seconds_between(last_reports_[model], now);
    report.begins = rounds_.step_of(instruction, round) == rounds_.of(instruction).steps.first;
    if (RecordedStep* step = recording_[lane]) {
      step->seconds += seconds_between(last_report_, now);
      step->reports.push_back({model, report});
    }
    last_report_ = last_reports_[model] = now;
    if (*on_step_) (*on_step_)(model, report);
  }
  return is_performed;
}

/// A throttled send waits before it leaves, so that its receiver waits, too.
void Executor::perform(std::int32_t index, std::int64_t round) {
  using Seconds = PacingClock::Seconds;
  const Instruction& instruction = nth(program_.program.instructions, index);
  if (options_.sent_per_second > 0 && instruction.exchange.sent > 0) {
    const Seconds way(static_cast<double>(instruction.exchange.sent) / options_.sent_per_second);
    pacing_.sleep_until(pacing_.now() + way);
  }
  const bool is_slowed = options_.flops_per_second > 0 && instruction.flops > 0;
  const Seconds start = is_slowed ? pacing_.now() : Seconds(0);
  nth(models_, instruction.model).operations->perform(*nth(own_, index), rounds_.step_of(instruction, round));
  if (is_slowed) pacing_.sleep_until(start + Seconds(instruction.flops / options_.flops_per_second));
}

/// Also of what is skipped the events are recorded: those who wait for it wait for what its stream had to do
/// before, too.
void Executor::issue(Stream& stream, Lane lane, std::int32_t index, std::int64_t round, bool performs) {
  Issued& issued = nth(issued_, index);
  stream.begin_range(nth(labels_, index).c_str());
  stream.record(*issued.start);
  if (performs) perform(index, round);
  stream.record(*issued.end);
  stream.end_range();
  issued.pending = true;
  issued.recorded = recording_[lane];
  issued.was_performed = performs;
}

/// Waits for the instruction's latest issue, if any, and counts its time: its events are about to be recorded
/// anew.
void Executor::finish_previous(Lane lane, std::int32_t index) {
  Issued& issued = nth(issued_, index);
  if (!issued.pending) return;
  wait_for(*issued.end, index);
  issued.pending = false;
  add_busy(lane, issued.end->seconds_since(*issued.start));
  RecordedStep* const step = std::exchange(issued.recorded, nullptr);
  if (step == nullptr) return;
  if (issued.was_performed) {
    InstructionTime& time = nth(step->times, index);
    time.start = issued.start->seconds_since(*record_begin_);
    time.end = issued.end->seconds_since(*record_begin_);
  }
  if (index == program_.dependencies.lanes[lane].back()) options_.recorder->pass(lane, *step);
}

/// The device may have a step's work before it, which may take long: it hangs if it ends nothing of it.
void Executor::wait_for(Event& event, std::int32_t index) {
  const AtWork at_work;
  constexpr double kLooks = 8, kLongestSeconds = 1;  // between looks at the device, and for ranks that failed
  const double slice = std::min(options_.watchdog_seconds / kLooks, kLongestSeconds);
  Advance before;
  for (double waited = 0; waited < options_.watchdog_seconds; waited += slice) {
    if (event.wait(slice)) return;
    const Advance now = advance();
    if (now != before) waited = 0;
    before = now;
    if (!options_.ranks_failure) continue;
    if (const std::optional<std::string> failure = options_.ranks_failure())
      throw EndedByRankError(fmt::format("{}: {}", nth(labels_, index), *failure));
  }
  throw DeviceError(fmt::format("the device did not finish '{}', nor anything else, within {} s",
                                print(program_.program, nth(program_.program.instructions, index)),
                                options_.watchdog_seconds));
}

Executor::Advance Executor::advance() {
  Advance advance;
  advance.ended = std::ranges::count_if(
      issued_, [](const Issued& issued) { return issued.end != nullptr && issued.end->wait(0); });
  const std::lock_guard lock(mutex_);
  for (const LaneState& lane : lanes_) advance.issued += lane.issued;
  return advance;
}

/// Waits for what other lanes have issued but perhaps not finished. An event may meanwhile stand for the next
/// round's issue of the same instruction: that was issued without need of this one, so it ends too, only
/// later.
void Executor::wait_for_events(Lane lane, std::int32_t index, std::int64_t round) {
  const auto& waits = nth(program_.dependencies.waits, index);
  Stream* own = streams_.find(lane);
  for (const Lane other : kLanes) {
    const bool before_this_run = waits[other].previous_step && round == 0;
    if (other == lane || waits[other].position < 0 || before_this_run || streams_.find(other) == nullptr)
      continue;
    const std::int32_t blocker = nth(program_.dependencies.lanes[other], waits[other].position);
    Event& event = *nth(issued_, blocker).end;
    if (own != nullptr) {
      own->wait(event);
    } else {
      wait_for(event, blocker);
    }
  }
}

void Executor::add_busy(Lane lane, double seconds) {
  const std::lock_guard lock(mutex_);
  measurements_.busy_seconds[lane] += seconds;
}

void Executor::count_sent(const Instruction& instruction, Bytes sent) {
  if (sent == 0) return;
  const std::lock_guard lock(mutex_);
  measurements_.count.traffic[*link_of(instruction.operation)] += sent;
}

bool Executor::is_abandoned(std::size_t model, std::int64_t step) const {
  return step > last_[model] || (stop_->load() && step > committed_[model]);
}

/// Also after a stop there is a round behind the last step, if there is any step that is not abandoned.
bool Executor::is_over(std::int64_t round) const {
  if (error_) return true;
  const auto has_a_step = [&](std::int64_t of_round) {
    for (std::size_t m = 0; m < models_.size(); ++m) {
      if (!is_abandoned(m, rounds_.models[m].steps.first + of_round)) return true;
    }
    return false;
  };
  return !has_a_step(round) && (round == 0 || !has_a_step(round - rounds_behind_));
}

void Executor::end_after(std::size_t model, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  last_[model] = std::min(last_[model], step);
  wake_all();
}

void Executor::end_soon(std::size_t model, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const std::int64_t round = step - rounds_.models[model].steps.first;
  for (std::size_t m = 0; m < last_.size(); ++m)
    last_[m] = std::min(last_[m], rounds_.models[m].steps.first + round + 1);
  wake_all();
}

/// Whether the instruction is to be performed; if its effect is to decide its step, that is decided then.
bool Executor::begin(const Instruction& instruction, std::int64_t round) {
  if (!rounds_.performs(instruction, round)) return false;
  const std::lock_guard lock(mutex_);
  const auto model = static_cast<std::size_t>(instruction.model);
  const std::int64_t step = rounds_.step_of(instruction, round);
  const bool serves_one = instruction.serves == Serves::step || instruction.serves == Serves::step_before;
  if (error_ || (serves_one && is_abandoned(model, step))) return false;
  if (instruction.effect != Effect::none) committed_[model] = step;
  return true;
}

/// Ranks whose exchanges come in different orders would wait for one another on devices that do one at a
/// time, or for handshakes of NCCL's.
bool Executor::has_its_turn(std::int32_t index, std::int64_t round) const {
  const std::optional<std::int64_t>& turn = nth(turns_, index);
  return !turn || turns_taken_ == round * turns_per_round_ + *turn;
}

/// Lanes may be a round ahead of the lane cpu, on which a stop is agreed upon, and no more. If a stop ends a
/// step, no rank may have begun an exchange of that step.
bool Executor::ready(std::int32_t index, std::int64_t round) const {
  if (!has_its_turn(index, round)) return false;
  const auto& waits = nth(program_.dependencies.waits, index);
  const auto cpu_per_round = static_cast<std::int64_t>(program_.dependencies.lanes[Lane::cpu].size());
  if (lanes_[Lane::cpu].issued < (round - 1) * cpu_per_round) return false;
  for (const Lane lane : kLanes) {
    if (waits[lane].position < 0) continue;
    if (lanes_[lane].issued < needed(program_.dependencies, lane, waits[lane], round, rounds_)) return false;
  }
  return true;
}

void Executor::note_doing(Lane lane, Doing doing, std::int32_t index, std::int64_t round) {
  const std::lock_guard lock(mutex_);
  LaneState& state = lanes_[lane];
  state.doing = doing;
  state.index = index;
  state.round = round;
  state.since = Clock::now();
}

/// False if the lane should end instead.
bool Executor::wait_until_ready(Lane lane, std::int32_t index, std::int64_t round) {
  std::unique_lock lock(mutex_);
  LaneState& state = lanes_[lane];
  state.doing = Doing::waiting;
  state.index = index;
  state.round = round;
  if (!is_over(round) && !ready(index, round)) {
    state.since = Clock::now();
    do {
      check_deadlock();
      progress_[lane].wait(lock);
    } while (!is_over(round) && !ready(index, round));
  }
  state.doing = Doing::performing;
  state.since = Clock::now();
  return !is_over(round);
}

void Executor::wake_ready() {
  for (const Lane lane : kLanes) {
    const LaneState& state = lanes_[lane];
    if (state.waits() && (is_over(state.round) || ready(state.index, state.round)))
      progress_[lane].notify_one();
  }
}

void Executor::wake_all() {
  for (std::condition_variable& lane : progress_) lane.notify_one();
}

/// A program whose dependencies follow program order cannot deadlock; a defect that makes it do so shows here
/// at once.
void Executor::check_deadlock() {
  const bool stuck = std::all_of(lanes_.begin(), lanes_.end(), [&](const LaneState& lane) {
    return lane.finished || (lane.waits() && !ready(lane.index, lane.round) && !is_over(lane.round));
  });
  if (!stuck) return;
  std::string waits;
  for (const Lane lane : kLanes) {
    if (lanes_[lane].finished) continue;
    waits += fmt::format("\n  {} waits to start {}{}", name_of(lane),
                         name_at(lanes_[lane].index, lanes_[lane].round), describe_wait(lane));
  }
  throw DeviceError("all lanes wait for one another:" + waits);
}

/// REQUIRES: called where `error` was caught.
void Executor::fail(const std::exception& error) {
  {
    const std::lock_guard lock(mutex_);
    wake_all();
    if (error_) return;
    error_ = std::current_exception();
  }
  if (options_.recorder != nullptr) options_.recorder->cancel();
  if (options_.on_failure) options_.on_failure(error);
}

}  // namespace strata
