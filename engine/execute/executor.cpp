#include "engine/execute/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "engine/base/error.h"

namespace strata {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Executor::Executor(const PlannedProgram& program, Operations& operations, Options options)
    : program_(program), operations_(operations), options_(std::move(options)) {}

Executor::RunResult Executor::run(std::int64_t first_step, std::int64_t steps, const std::atomic<bool>& stop,
                                  const std::function<void(const StepReport&)>& on_step) {
  lanes_ = {};
  committed_ = -1;
  error_ = nullptr;
  first_step_ = first_step;
  steps_ = steps;
  stop_ = &stop;
  on_step_ = &on_step;
  last_report_ = Clock::now();
  if (options_.mode == LaneMode::serial) {
    run_serial();
  } else {
    std::vector<std::thread> threads;
    for (std::size_t lane = 0; lane < kLanes.size(); ++lane) threads.emplace_back([this, lane] { run_lane(lane); });
    for (std::thread& thread : threads) thread.join();
  }
  if (error_) std::rethrow_exception(error_);
  return {committed_ + 1, seconds_between(last_report_, Clock::now())};
}

void Executor::run_serial() {
  try {
    for (std::int64_t step = 0; step < steps_; ++step) {
      for (std::size_t i = 0; i < program_.program.instructions.size(); ++i) {
        {
          const std::lock_guard lock(mutex_);
          if (abandoned(step)) return;
        }
        const auto lane = static_cast<std::size_t>(program_.program.instructions[i].lane);
        if (!execute(lane, static_cast<std::int32_t>(i), step)) return;
        if (options_.observer) options_.observer(program_.program.instructions[i]);
      }
    }
  } catch (...) {
    error_ = std::current_exception();
  }
}

void Executor::run_lane(std::size_t lane) {
  try {
    for (std::int64_t step = 0; step < steps_; ++step) {
      for (const std::int32_t index : program_.dependencies.lanes[lane]) {
        if (!wait_until_ready(lane, index, step) || !execute(lane, index, step)) {
          step = steps_;
          break;
        }
        const std::lock_guard lock(mutex_);
        ++lanes_[lane].completed;
        progress_.notify_all();
      }
    }
  } catch (...) {
    fail(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  lanes_[lane].finished = true;
  progress_.notify_all();
}

/// False where the step was abandoned instead.
bool Executor::execute(std::size_t lane, std::int32_t index, std::int64_t step) {
  const Instruction& instruction = program_.program.instructions[static_cast<std::size_t>(index)];
  const bool reports = instruction.operation == Operation::grad_norm;
  if (reports && !commit(step)) return false;
  const Clock::time_point start = Clock::now();
  try {
    operations_.perform(instruction, first_step_ + step);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DeviceError(fmt::format("instruction failed: {}: {}", print(program_.program, instruction), error.what()));
  }
  const Clock::time_point end = Clock::now();
  measure(lane, instruction, seconds_between(start, end));
  if (reports) {
    StepReport report = operations_.report();
    report.seconds = seconds_between(last_report_, end);
    last_report_ = end;
    if (*on_step_) (*on_step_)(report);
  }
  return true;
}

void Executor::measure(std::size_t lane, const Instruction& instruction, double seconds) {
  const std::lock_guard lock(mutex_);
  measurements_.busy_seconds[lane] += seconds;
  for_each_operand(instruction, [&](const Operand& operand, bool) {
    const Buffer& buffer = program_.program.buffer(operand.buffer);
    Bytes& peak = measurements_.peak_bytes[static_cast<std::size_t>(buffer.tier)];
    peak = std::max(peak, buffer.offset + buffer.bytes);
  });
  if (instruction.lane == Lane::h2d || instruction.lane == Lane::d2h) {
    measurements_.copied_bytes[lane] += program_.program.buffer(instruction.reads[0].buffer).bytes;
  }
}

bool Executor::abandoned(std::int64_t step) const { return error_ || (stop_->load() && step > committed_); }

bool Executor::commit(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (abandoned(step)) return false;
  committed_ = step;
  return true;
}

bool Executor::ready(std::int32_t index, std::int64_t step) const {
  const auto& waits = program_.dependencies.waits[static_cast<std::size_t>(index)];
  for (std::size_t lane = 0; lane < waits.size(); ++lane) {
    if (waits[lane].position < 0) continue;
    const auto per_step = static_cast<std::int64_t>(program_.dependencies.lanes[lane].size());
    const std::int64_t whole_steps = waits[lane].previous_step ? step - 1 : step;
    if (lanes_[lane].completed < whole_steps * per_step + waits[lane].position + 1) return false;
  }
  return true;
}

/// False where the lane should end instead.
bool Executor::wait_until_ready(std::size_t lane, std::int32_t index, std::int64_t step) {
  std::unique_lock lock(mutex_);
  LaneState& state = lanes_[lane];
  state.waiting_for = index;
  state.waiting_step = step;
  const auto watchdog = std::chrono::duration<double>(options_.watchdog_seconds);
  while (!abandoned(step) && !ready(index, step)) {
    check_deadlock();
    const auto before = lanes_;
    const bool timed_out = progress_.wait_for(lock, watchdog) == std::cv_status::timeout;
    const bool nothing_finished = std::equal(lanes_.begin(), lanes_.end(), before.begin(), [](auto& a, auto& b) {
      return a.completed == b.completed;
    });
    if (timed_out && nothing_finished) {
      throw DeviceError(fmt::format("nothing finished for {} s: {}", options_.watchdog_seconds, describe_wait(lane)));
    }
  }
  state.waiting_for = -1;
  return !abandoned(step);
}

/// A program whose dependencies follow program order cannot deadlock; a defect that makes it do so shows here at once.
void Executor::check_deadlock() {
  const bool stuck = std::all_of(lanes_.begin(), lanes_.end(), [&](const LaneState& lane) {
    return lane.finished || (lane.waiting_for >= 0 && !ready(lane.waiting_for, lane.waiting_step) &&
                             !abandoned(lane.waiting_step));
  });
  if (!stuck) return;
  std::string waits;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].finished) waits += "\n  " + describe_wait(lane);
  }
  throw DeviceError("all lanes wait for one another:" + waits);
}

std::string Executor::describe_wait(std::size_t lane) const {
  const std::int32_t index = lanes_[lane].waiting_for;
  const auto& waits = program_.dependencies.waits[static_cast<std::size_t>(index)];
  std::string text =
      fmt::format("{} waits to start '{}' of step {}", name_of(kLanes[lane]),
                  print(program_.program, program_.program.instructions[static_cast<std::size_t>(index)]),
                  first_step_ + lanes_[lane].waiting_step);
  for (std::size_t other = 0; other < waits.size(); ++other) {
    if (waits[other].position < 0) continue;
    const std::int32_t blocker = program_.dependencies.lanes[other][static_cast<std::size_t>(waits[other].position)];
    text += fmt::format(", after '{}'",
                        print(program_.program, program_.program.instructions[static_cast<std::size_t>(blocker)]));
  }
  return text;
}

void Executor::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  progress_.notify_all();
}

}  // namespace strata
