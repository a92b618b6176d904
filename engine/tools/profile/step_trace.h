// The trace of chosen steps of a run (report.trace), written while the run goes on: each step is appended to
// the file when all lanes are through with it, at its real time. Memory is that of one step, however many are
// written. Called by the recorder's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/report_section.h"
#include "engine/run/execute/step_recorder.h"
#include "engine/tools/profile/memory_track.h"
#include "engine/tools/profile/trace_file.h"
#include "engine/tools/profile/trace_packets.h"
#include "engine/tools/profile/wait_flows.h"

namespace strata {

/// Tracks: the steps (of each model), a thread for each lane, and counters of each tier's memory: all of it,
/// and of each kind. They are the same in each run that appends to a file, and other ones on each rank, so
/// files of several ranks may be joined. What the lane save does is not in it.
class StepTrace : public RoundListener {
 public:
  struct Setup {
    std::string path;
    std::vector<StepSpan> steps;
    int rank = 0;
    std::vector<std::string> models = {};  ///< names of the program's models, if it has several
    /// Called once if the file cannot be written any more: that ends the trace and not the run.
    std::function<void(const std::string& sentence)> on_warning = {};
  };
  /// Throws ConfigError.
  explicit StepTrace(Setup setup);
  ~StepTrace() override;
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  bool wants(const RoundOfRun& round) const override;
  void on_recorded(const RecordedStep& step, const RoundOfRun& round) override;

  /// What it keeps between steps.
  Bytes bytes() const;

 private:
  /// What is made once of a program.
  struct OfProgram {
    explicit OfProgram(const PlannedProgram& planned);

    const PlannedProgram* program;
    std::vector<std::string> titles, fields;  ///< by instruction: what its slices say
    std::vector<std::int32_t> reports;        ///< by model: the instruction that reports its steps
    MemoryTrack memory;
  };

  bool is_chosen(std::int64_t step) const;
  void add_steps(const RecordedStep& step, std::int64_t begin);
  void add_slice(std::size_t instruction, std::int64_t begin, std::int64_t step);
  void count(std::int64_t nanoseconds, Tier tier, const MemoryTrack::ByKind& by_kind);
  void count_one(std::int64_t nanoseconds, Tier tier, std::size_t counter, Bytes bytes);
  void write();
  /// Numbers of tracks, such that nothing else of any rank has them.
  std::uint64_t track(std::uint64_t number) const;
  template <typename Describe>
  std::uint64_t described(std::size_t number, const Describe& describe);

  static constexpr std::size_t kCountersOfTier = kBufferKinds.size() + 1;

  const Setup setup_;
  std::string packets_text_, fields_;
  TracePackets packets_;
  WaitFlows flows_;
  std::optional<TraceFile> file_;  ///< none any more if it failed
  std::optional<OfProgram> program_;
  std::int64_t run_ = -1, round_ = -1;  ///< of the step before: when its run began, and its round
  std::vector<InstructionTime> times_;
  std::vector<bool> described_;                                     ///< by number of track
  std::array<Bytes, kTiers.size()* kCountersOfTier> counted_ = {};  ///< the latest values
  std::vector<std::int64_t> step_ends_;                             ///< by model: of the step before
  MemoryTrack::OnReading on_reading_;
};

}  // namespace strata
