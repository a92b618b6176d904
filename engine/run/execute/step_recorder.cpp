#include "engine/run/execute/step_recorder.h"

#include <algorithm>
#include <utility>

#include "engine/model/model.h"

namespace strata {
namespace {

constexpr std::int64_t kWarmRounds = 2;  // in which memory is touched first, and lanes become busy

}  // namespace

std::optional<std::int64_t> RoundOfRun::step_of(std::size_t model) const {
  const StepRange& steps = rounds.models[model].steps;
  const std::int64_t step = steps.first + number - behind;
  return steps.has(step) ? std::optional(step) : std::nullopt;
}

std::int64_t RoundOfRun::last() const {
  std::int64_t count = 0;
  for (const Rounds::OfModel& model : rounds.models) count = std::max(count, model.steps.count);
  return count - 1 + behind;
}

bool EarlyStep::wants(const RoundOfRun& round) const {
  // Only a lane in that round may look at the step, which is not handed over before all lanes are through.
  return round.number == std::min(kWarmRounds, round.last()) && !is_there();
}

bool BusyRounds::wants(const RoundOfRun& round) const {
  constexpr std::int64_t kEnough = 12;
  const std::int64_t first = std::min(kWarmRounds, round.last());
  return first <= round.number && round.number <= std::max(first, round.last() - 1) && round.number < kEnough;
}

void BusyRounds::on_recorded(const RecordedStep& step, const RoundOfRun& /*round*/) {
  if (program_ == nullptr) program_ = step.program;
  if (program_ != step.program) return;
  sum_.add(program_->program, step.times);
  ++count_;
}

std::optional<StepTimes> BusyRounds::mean() const {
  if (count_ == 0) return std::nullopt;
  StepTimes mean = sum_;
  for (double& seconds : mean.by_lane) seconds /= static_cast<double>(count_);
  for (double& seconds : mean.by_operation) seconds /= static_cast<double>(count_);
  return mean;
}

StepRecorder::StepRecorder(std::vector<RoundListener*> listeners)
    : listeners_(std::move(listeners)), thread_([this] { hand_over(); }) {}

StepRecorder::~StepRecorder() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StepRecorder::clear(RecordedStep& step) {
  step.seconds = 0;
  step.reports.clear();
  std::ranges::fill(step.times, InstructionTime{.start = 0, .end = -1});
}

void StepRecorder::prepare(const PlannedProgram& program) {
  const std::lock_guard lock(mutex_);
  program_ = &program;
  reports_behind_ = std::ranges::any_of(program.program.instructions, [](const Instruction& instruction) {
    return instruction.effect == Effect::reports && instruction.serves == Serves::step_before;
  });
  for (Slot& slot : slots_) {
    slot.step.program = program_;
    slot.step.reports.reserve(models_in(program.program));
    slot.step.times.resize(program.program.instructions.size());
    clear(slot.step);
  }
}

void StepRecorder::begin_run(const Rounds& rounds, std::int64_t begin_nanoseconds) {
  const std::lock_guard lock(mutex_);
  rounds_ = rounds;
  begin_of_run_ = begin_nanoseconds;
  cancelled_ = false;
  present_ = 0;
  for (const Lane lane : kLanes) {
    if (lane != Lane::save && !program_->dependencies.lanes[lane].empty()) present_ |= bit(lane);
  }
}

StepRecorder::Slot* StepRecorder::find(std::int64_t round) {
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return slot.use == Use::recording && slot.step.round == round; });
  return found == slots_.end() ? nullptr : &*found;
}

/// Finds the slot with this use that was opened first; null if there is none.
StepRecorder::Slot* StepRecorder::next(Use use) {
  Slot* first = nullptr;
  for (Slot& slot : slots_) {
    if (slot.use == use && (first == nullptr || slot.order < first->order)) first = &slot;
  }
  return first;
}

RecordedStep* StepRecorder::begin(Lane lane, std::int64_t round) {
  if (lane == Lane::save) return nullptr;
  std::unique_lock lock(mutex_);
  const bool is_wanted =
      std::ranges::any_of(listeners_, [&](const auto* listener) { return listener->wants(number(round)); });
  if (!is_wanted) return nullptr;
  Slot* slot = nullptr;
  changed_.wait(lock, [&] {
    slot = find(round);
    if (slot == nullptr) slot = next(Use::free);
    return slot != nullptr || cancelled_;
  });
  if (slot == nullptr) return nullptr;
  if (slot->use == Use::free) {
    slot->use = Use::recording;
    slot->step.round = round;
    slot->step.begin_of_run = begin_of_run_;
    slot->lanes = present_;
    slot->order = opened_++;
  }
  return &slot->step;
}

void StepRecorder::pass_locked(Lane lane, Slot& slot) {
  if (slot.use != Use::recording) return;  // lanes that have no instructions come later
  slot.lanes &= ~bit(lane);
  if (slot.lanes != 0) return;
  slot.use = Use::over;
  changed_.notify_all();
}

void StepRecorder::pass(Lane lane, const RecordedStep& step) {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (&slot.step == &step) pass_locked(lane, slot);
  }
}

void StepRecorder::leave(Lane lane) {
  const std::lock_guard lock(mutex_);
  present_ &= ~bit(lane);
  for (Slot& slot : slots_) pass_locked(lane, slot);
}

void StepRecorder::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

void StepRecorder::end_run() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.use == Use::free; });
  });
}

/// A round that was abandoned before any of its steps was reported is none. With late updates there is one
/// behind the last step that only finishes it; it is dropped, too.
void StepRecorder::hand_over() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Slot* slot = nullptr;
    changed_.wait(lock, [&] {
      slot = next(Use::over);
      return slot != nullptr || ending_;
    });
    if (slot == nullptr) return;
    lock.unlock();
    if (!slot->step.reports.empty()) {
      const RoundOfRun round = number(slot->step.round);
      for (RoundListener* listener : listeners_) {
        if (listener->wants(round)) listener->on_recorded(slot->step, round);
      }
    }
    clear(slot->step);
    lock.lock();
    slot->use = Use::free;
    changed_.notify_all();
  }
}

}  // namespace strata
