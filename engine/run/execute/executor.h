// The executor runs a program on its lanes, one thread each, for as many steps of each of its models as
// asked. It never allocates and never decides.
//
// An instruction starts when its lane and the bytes that it touches are free. Steps overlap as far as that
// allows, but no lane is more than a round ahead of the cpu lane. The threads of device lanes only issue.
// Their instructions wait on the device for other lanes' events, so these threads run ahead of the device by
// up to a step. A host lane's thread waits for the events itself, and device lanes wait for host lanes before
// issuing. Exchanges of the device with other ranks are issued in the program's order, whatever their lane,
// so all ranks issue them in one order.
//
// A failing instruction stops all lanes and surfaces as one error. Lanes wait for one another without a
// limit, since an instruction may be at work for long. An instruction's own waits are watched where they
// happen: drives and files by the Watchdog (base/watchdog.h), other ranks by their communicator, the device
// here.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/enum_array.h"
#include "base/pacing_clock.h"
#include "engine/plan/program/rounds.h"
#include "engine/run/execute/operations.h"
#include "engine/run/execute/step_recorder.h"

namespace strata {

/// What really happened, over all runs of an executor. Nothing of it comes from the plan: memory and copies
/// are counted by the Meter, what drives move by the store, what ranks send by their communicators.
struct Measurements {
  EnumArray<Lane, double> busy_seconds = {};
  MeterCount count;
};

/// The same, while it happens.
struct LiveFigures {
  EnumArray<Lane, double> busy_seconds = {};
  EnumArray<Tier, Bytes> peak_bytes = {};  ///< the highest that was touched
};

class Executor {
 public:
  struct Options {
    LaneMode mode = LaneMode::overlapped;
    double watchdog_seconds =
        900;  ///< a wait for the device longer than this, in which it ends nothing, fails
    std::vector<SaveSchedule> saves = {};  ///< by model: the steps that perform what others skip
    /// An instruction takes no less time than its FLOPs do, and so much longer than the bytes that it sends
    /// to other ranks. 0: as fast as it goes. REQUIRES: streams perform at once.
    double flops_per_second = 0, sent_per_second = 0;
    /// Called when the first lane fails, by it: other lanes may wait for other ranks, or for long.
    std::function<void(const std::exception&)> on_failure = {};
    /// Why other ranks will not come any more, if so: asked while the device waits, perhaps for them.
    std::function<std::optional<std::string>()> ranks_failure = {};
    /// Serial mode only: called after each instruction (tests look at buffers here).
    std::function<void(const Instruction&)> observer = {};
    StepRecorder* recorder = nullptr;  ///< for rounds that are wanted; outlives the executor
  };

  /// What one of the program's models does, and its instructions as `operations` know them: those of the
  /// program that are its own, in their order.
  struct ModelOperations {
    Operations* operations = nullptr;  ///< null: it does nothing
    const std::vector<Instruction>* instructions = nullptr;
  };

  /// `models` by their numbers in the program.
  Executor(const PlannedProgram& program, std::vector<ModelOperations> models, const LaneStreams& streams,
           Options options);

  struct RunResult {
    std::vector<std::int64_t> completed_steps;  ///< by model
    double tail_seconds = 0;  ///< from the last step's report until all lanes but that of saving were idle
  };

  using OnStep = std::function<void(std::size_t model, const StepReport&)>;

  /// Runs these steps of each model and returns when all lanes are idle. `on_step` is called on the cpu lane
  /// once a step's loss and norm are known. When `stop` becomes true, steps that are not decided are
  /// abandoned after the instruction in flight. The other steps are finished, also those parts that belong to
  /// the next round. So each model's state is that of a whole number of steps.
  RunResult run(const std::vector<StepRange>& steps, const std::atomic<bool>& stop, const OnStep& on_step);

  /// Abandons a model's steps after `step`, or after the earliest step that was given, on all lanes.
  /// REQUIRES: an instruction of that model's cpu lane calls it. If several ranks agree upon it, it is called
  /// in `step - 1` or before, since no lane begins a round before the cpu lane is through with the round two
  /// before it.
  void end_after(std::size_t model, std::int64_t step);
  /// All models' steps are abandoned that belong to rounds later than the one after the round of a model's
  /// step. To be called as end_after() is.
  void end_soon(std::size_t model, std::int64_t step);

  const Measurements& measurements() const { return measurements_; }

  /// What each lane does at this moment, a line each: the step and the instruction, for how long, and what
  /// it waits for. Any thread may call, also while lanes hang.
  std::vector<std::string> describe_lanes() const;
  /// Any thread may call.
  LiveFigures live() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Doing : std::uint8_t { nothing, waiting, performing };

  /// How far lanes and device have come: unequal to what it was before, if anything has begun or ended.
  struct Advance {
    std::int64_t issued = 0, ended = 0;
    friend bool operator==(const Advance&, const Advance&) = default;
  };

  void begin_run(const std::vector<StepRange>& steps);
  void begin_recording();
  void end_recording();
  void run_serial();
  void run_lane(Lane lane);
  void run_rounds(Lane lane);
  void wait_until_idle(Lane lane);
  bool execute(Lane lane, std::int32_t index, std::int64_t round);
  void perform(std::int32_t index, std::int64_t round);
  MeterCount take_count();
  void issue(Stream& stream, Lane lane, std::int32_t index, std::int64_t round, bool performs);
  void finish_previous(Lane lane, std::int32_t index);
  void wait_for(Event& event, std::int32_t index);
  Advance advance();
  void wait_for_events(Lane lane, std::int32_t index, std::int64_t round);
  bool wait_until_ready(Lane lane, std::int32_t index, std::int64_t round);
  void begin_round(Lane lane, std::int64_t round);
  void end_round(Lane lane);
  void leave(Lane lane);
  void note_doing(Lane lane, Doing doing, std::int32_t index, std::int64_t round);
  bool begin(const Instruction& instruction, std::int64_t round);
  bool ready(std::int32_t index, std::int64_t round) const;
  bool has_its_turn(std::int32_t index, std::int64_t round) const;
  bool is_abandoned(std::size_t model, std::int64_t step) const;
  bool is_over(std::int64_t round) const;
  /// Wakes the lanes that need wait no longer: few do after one instruction, and the others' threads would
  /// only go back to sleep. REQUIRES: mutex_ is held.
  void wake_ready();
  void wake_all();
  void check_deadlock();
  void fail(const std::exception& error);
  void add_busy(Lane lane, double seconds);
  void count_sent(const Instruction& instruction, Bytes sent);
  std::string describe_wait(Lane lane) const;
  std::string describe_lane(Lane lane) const;
  std::string describe_unfinished(Lane lane) const;
  std::string name_at(std::int32_t index, std::int64_t round) const;

  struct LaneState {
    std::int64_t issued = 0;  ///< instructions, over all rounds of this run; on a host lane they are done too
    Doing doing = Doing::nothing;
    std::int32_t index = -1;  ///< instruction that it waits to start, or performs
    std::int64_t round = 0;
    Clock::time_point since;
    bool finished = false;

    bool waits() const { return doing == Doing::waiting; }
  };

  /// An instruction of a device lane: where its latest issue lies in its stream.
  struct Issued {
    std::unique_ptr<Event> start, end;
    bool pending = false;              ///< its time is not counted yet
    RecordedStep* recorded = nullptr;  ///< of its round, if that is
    bool was_performed = false;
  };

  const PlannedProgram& program_;
  const std::vector<ModelOperations> models_;
  const LaneStreams& streams_;
  Options options_;
  std::vector<const Instruction*> own_;  ///< per instruction: as its model's operations know it
  std::vector<Issued> issued_;           ///< per instruction; without events for host lanes
  /// Per instruction, if by it the device exchanges values with other ranks: how many of these are before it.
  std::vector<std::optional<std::int64_t>> turns_;
  std::int64_t turns_per_round_ = 0;
  std::vector<std::string> labels_;  ///< per instruction, for profilers
  Measurements measurements_;
  const PacingClock pacing_ = PacingClock::steady();

  mutable std::mutex mutex_;
  EnumArray<Lane, std::condition_variable> progress_;  ///< by lane: it may go on
  EnumArray<Lane, LaneState> lanes_;
  std::int64_t turns_taken_ = 0;         ///< over all rounds of this run
  std::vector<std::int64_t> committed_;  ///< by model: latest step that will be finished whatever happens
  std::vector<std::int64_t> last_;       ///< by model: step of this run
  std::exception_ptr error_;

  const std::int64_t rounds_behind_;  ///< a step's own, in which it is finished
  Rounds rounds_;
  const std::atomic<bool>* stop_ = nullptr;
  const OnStep* on_step_ = nullptr;
  Clock::time_point last_report_, idle_;
  std::vector<Clock::time_point> last_reports_;  ///< by model, as last_report_ is of any
  EnumArray<Lane, RecordedStep*> recording_;     ///< of the round that the lane is in
  std::unique_ptr<Event> record_begin_;          ///< from which devices count its seconds, and then the host
  Clock::time_point record_begin_time_;
};

}  // namespace strata
