// Records chosen rounds of a run, and hands each to those who asked for it once all lanes are through with
// it, on a thread of its own. Memory is that of a few rounds, however many are recorded: a lane that begins
// one while all of it is in use waits until some was handed over. The lane save takes no part, since it may
// be many rounds behind. Lanes call from their threads.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/plan/cost/step_times.h"
#include "engine/plan/program/rounds.h"
#include "engine/run/execute/recorded_step.h"

namespace strata {

/// A round of a run that is about to begin.
struct RoundOfRun {
  const Rounds& rounds;
  std::int64_t number = 0;  ///< from 0
  std::int64_t behind = 0;  ///< how many rounds later than a step's own it is reported

  /// The step that is reported in it, from 0; nothing if the model has none.
  std::optional<std::int64_t> step_of(std::size_t model) const;
  /// The last round that reports a step.
  std::int64_t last() const;
};

class RoundListener {
 public:
  virtual ~RoundListener() = default;
  /// Whether it wants a round. Asked by lanes, one at a time; the answer stays until the round was handed
  /// over. Allocates nothing.
  virtual bool wants(const RoundOfRun& round) const = 0;
  /// The round is over: what was recorded in it. Throws nothing.
  virtual void on_recorded(const RecordedStep& step, const RoundOfRun& round) = 0;
};

/// Keeps one of the first rounds, in which all memory has been touched and lanes are busy: the third of the
/// first run, or the last of a shorter one.
class EarlyStep : public RoundListener {
 public:
  bool wants(const RoundOfRun& round) const override;
  void on_recorded(const RecordedStep& step, const RoundOfRun& /*round*/) override { step_ = step; }
  bool is_there() const { return !step_.times.empty(); }
  const RecordedStep& get() const { return step_; }

 private:
  RecordedStep step_;
};

/// The times of instructions in rounds in which lanes are busy, of the first program that runs. Those are the
/// third to the last but one of each run of the program, and none after the twelfth. A shorter run gives what
/// it has.
class BusyRounds : public RoundListener {
 public:
  bool wants(const RoundOfRun& round) const override;
  void on_recorded(const RecordedStep& step, const RoundOfRun& round) override;
  /// The mean of a round, its step's seconds left out; nothing if none was recorded. Between runs.
  std::optional<StepTimes> mean() const;

 private:
  const PlannedProgram* program_ = nullptr;
  StepTimes sum_;
  std::int64_t count_ = 0;
};

class StepRecorder {
 public:
  /// Rounds that it has memory for: lanes are in three at most, and one is being handed over.
  static constexpr std::size_t kSlots = 4;

  /// REQUIRES: listeners outlive it.
  explicit StepRecorder(std::vector<RoundListener*> listeners);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Makes room for rounds of a program. Between runs.
  void prepare(const PlannedProgram& program);
  /// A run of that program begins, whose times count from `begin`.
  void begin_run(const Rounds& rounds, std::int64_t begin_nanoseconds);
  /// Where the lane records its instructions of a round, all of them before pass(); null: nobody wants it.
  RecordedStep* begin(Lane lane, std::int64_t round);
  void pass(Lane lane, const RecordedStep& step);
  /// The lane begins no other round of this run.
  void leave(Lane lane);
  /// The run failed: nobody waits any more.
  void cancel();
  /// All lanes have left. Returns when all rounds were handed over.
  void end_run();

 private:
  enum class Use : std::uint8_t { free, recording, over };
  using Lanes = std::uint32_t;  ///< bits
  static_assert(kLanes.size() <= 32);
  static Lanes bit(Lane lane) { return Lanes{1} << static_cast<unsigned>(lane); }
  struct Slot {
    RecordedStep step;
    Use use = Use::free;
    Lanes lanes = 0;  ///< not through with it
    std::int64_t order = 0;
  };

  RoundOfRun number(std::int64_t round) const { return {rounds_, round, reports_behind_}; }
  Slot* find(std::int64_t round);
  Slot* next(Use use);
  void pass_locked(Lane lane, Slot& slot);
  void hand_over();
  static void clear(RecordedStep& step);

  const std::vector<RoundListener*> listeners_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slot, kSlots> slots_;
  const PlannedProgram* program_ = nullptr;
  Rounds rounds_;
  std::int64_t reports_behind_ = 0, begin_of_run_ = 0, opened_ = 0;
  Lanes present_ = 0;  ///< lanes that may still begin rounds of this run
  bool cancelled_ = false, ending_ = false;
  std::thread thread_;  ///< last: it uses all else
};

}  // namespace strata
