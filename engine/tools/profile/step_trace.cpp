#include "engine/tools/profile/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/tools/profile/step_profile.h"
#include "engine/tools/profile/trace.h"

namespace strata {
namespace {

// Numbers of tracks on a rank.
constexpr std::size_t kProcessTrack = 0, kLaneTracks = 0x100, kCounterTracks = 0x200, kStepTracks = 0x1000,
                      kTracksOfRank = 0x10000;

/// Each run that appends to a file begins with another: it makes fewer than one flow in a microsecond.
std::uint64_t first_flow(int rank) {
  constexpr int kTimeBits = 52;
  const auto since_1970 = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return (static_cast<std::uint64_t>(rank) << kTimeBits) + static_cast<std::uint64_t>(since_1970.count());
}

}  // namespace

StepTrace::OfProgram::OfProgram(const PlannedProgram& planned) : program(&planned), memory(planned.program) {
  const std::vector<Instruction>& instructions = planned.program.instructions;
  reports.assign(models_in(planned.program), -1);
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    SliceFields slice(fields.emplace_back());
    add_instruction(slice, planned.program, static_cast<std::int32_t>(i));
    titles.push_back(title_of(planned.program, instructions[i]));
    if (instructions[i].effect == Effect::reports)
      nth(reports, instructions[i].model) = static_cast<std::int32_t>(i);
  }
}

StepTrace::StepTrace(Setup setup)
    : setup_(std::move(setup)),
      packets_(packets_text_, static_cast<std::uint32_t>(setup_.rank + 1)),
      flows_(first_flow(setup_.rank)),
      described_(kStepTracks + std::max<std::size_t>(1, setup_.models.size())),
      step_ends_(std::max<std::size_t>(1, setup_.models.size())) {
  counted_.fill(-1);
  packets_.begin();
  file_.emplace(setup_.path, packets_text_);
  packets_text_.clear();
  on_reading_ = [this](std::int64_t nanoseconds, Tier tier, const MemoryTrack::ByKind& by_kind) {
    count(nanoseconds, tier, by_kind);
  };
}

StepTrace::~StepTrace() {
  if (program_) program_->memory.finish(on_reading_);
  write();
}

bool StepTrace::is_chosen(std::int64_t step) const {
  return std::ranges::any_of(setup_.steps,
                             [&](const StepSpan& span) { return step >= span.first && step <= span.last; });
}

bool StepTrace::wants(const RoundOfRun& round) const {
  for (std::size_t m = 0; m < round.rounds.models.size(); ++m) {
    const std::optional<std::int64_t> step = round.step_of(m);
    if (step && is_chosen(*step + 1)) return true;
  }
  return false;
}

std::uint64_t StepTrace::track(std::uint64_t number) const {
  return static_cast<std::uint64_t>(setup_.rank + 1) * kTracksOfRank + number;
}

/// The track, which the run has told of.
template <typename Describe>
std::uint64_t StepTrace::described(std::size_t number, const Describe& describe) {
  const std::uint64_t track = this->track(number);
  if (!described_[number]) describe(track);
  described_[number] = true;
  return track;
}

void StepTrace::on_recorded(const RecordedStep& step, const RoundOfRun& round) {
  if (!file_) return;
  const bool is_same_program = program_ && program_->program == step.program;
  const bool follows = is_same_program && run_ == step.begin_of_run && round_ + 1 == step.round;
  if (!is_same_program) {
    if (program_) program_->memory.finish(on_reading_);
    program_.emplace(*step.program);
  }
  run_ = step.begin_of_run;
  round_ = step.round;
  described(kProcessTrack, [&](std::uint64_t track) {
    packets_.add_process(track, setup_.rank + 1, fmt::format("rank {}", setup_.rank));
  });
  times_ = step.times;
  const std::int64_t begin = step.begin_of_run + nanoseconds(add_waits(*step.program, times_));
  flows_.find(times_);
  add_steps(step, begin);
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (times_[i].has_run())
      add_slice(i, begin, round.rounds.step_of(step.program->program.instructions[i], step.round) + 1);
  }
  program_->memory.add(times_, begin, follows, on_reading_);
  const bool goes_on = std::ranges::any_of(
      step.reports, [&](const ModelReport& model) { return is_chosen(model.report.step + 2); });
  if (!goes_on) program_->memory.finish(on_reading_);
  write();
}

/// A step's slice reaches from the report of the step before to its own.
void StepTrace::add_steps(const RecordedStep& step, std::int64_t begin) {
  for (const ModelReport& model : step.reports) {
    const auto number = program_->reports[model.model];
    const std::int64_t end = begin + nanoseconds(nth(times_, number).end);
    std::int64_t& end_before = step_ends_[model.model];
    const std::int64_t start = std::max(end_before, end - nanoseconds(model.report.seconds));
    end_before = end;
    const std::uint64_t track = described(kStepTracks + model.model, [&](std::uint64_t of_model) {
      packets_.add_track(of_model, this->track(kProcessTrack),
                         setup_.models.empty() ? "steps" : "steps of " + setup_.models[model.model]);
    });
    fields_.clear();
    SliceFields fields(fields_);
    fields.name(fmt::format("step {}", model.report.step + 1));
    if (model.report.has_loss) fields.annotate("loss", model.report.loss);
    fields.annotate("gradient norm", model.report.grad_norm);
    packets_.begin_slice(start, track, fields_);
    packets_.end_slice(end, track);
  }
}

void StepTrace::add_slice(std::size_t instruction, std::int64_t begin, std::int64_t step) {
  const InstructionTime& time = times_[instruction];
  const Lane lane = program_->program->program.instructions[instruction].lane;
  const auto number = ordinal(lane);
  const std::uint64_t track = described(kLaneTracks + number, [&](std::uint64_t of_lane) {
    const std::int32_t pid = setup_.rank + 1;
    packets_.add_thread(of_lane, pid, pid * 100 + static_cast<std::int32_t>(number) + 1, name_of(lane));
  });
  fields_ = program_->fields[instruction];
  SliceFields fields(fields_);
  fields.annotate("step", step);
  flows_.add_to(fields, instruction, time,
                time.awaited < 0 ? std::string_view() : nth(program_->titles, time.awaited));
  packets_.begin_slice(begin + nanoseconds(time.start), track, fields_);
  packets_.end_slice(begin + nanoseconds(time.end), track);
}

void StepTrace::count(std::int64_t nanoseconds, Tier tier, const MemoryTrack::ByKind& by_kind) {
  Bytes all = 0;
  std::size_t counter = 0;
  for (const Bytes bytes : by_kind) {
    all += bytes;
    count_one(nanoseconds, tier, ++counter, bytes);
  }
  count_one(nanoseconds, tier, 0, all);
}

/// If it changes. Counter 0 is all of the tier, the others are its kinds.
void StepTrace::count_one(std::int64_t nanoseconds, Tier tier, std::size_t counter, Bytes bytes) {
  const std::size_t number = ordinal(tier) * kCountersOfTier + counter;
  const bool is_used = described_[kCounterTracks + number] || bytes > 0;
  if (!is_used || std::exchange(counted_[number], bytes) == bytes) return;
  const std::uint64_t track = described(kCounterTracks + number, [&](std::uint64_t of_counter) {
    const std::string name(name_of(tier));
    packets_.add_counter(
        of_counter, this->track(kProcessTrack),
        counter == 0 ? name : fmt::format("{} {}", name, name_of(kBufferKinds[counter - 1])));
  });
  packets_.count(nanoseconds, track, bytes);
}

void StepTrace::write() {
  if (!file_) return;
  try {
    file_->append(packets_text_);
  } catch (const IoError& error) {
    file_.reset();
    if (setup_.on_warning)
      setup_.on_warning(fmt::format("report.trace: {}; the trace ends here", error.what()));
  }
  packets_text_.clear();
}

Bytes StepTrace::bytes() const {
  const auto of = [](const auto& values) {
    return static_cast<Bytes>(values.capacity() * sizeof(*values.data()));
  };
  return of(packets_text_) + of(fields_) + of(times_) + flows_.bytes() +
         (program_ ? program_->memory.bytes() : 0);
}

}  // namespace strata
