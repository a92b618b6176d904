// What training one model and training several have in common, before and beside the run.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/checkpoint_section.h"
#include "engine/config/run_models.h"
#include "engine/run/assembly/prepared_run.h"
#include "engine/run/execute/trainer.h"
#include "engine/run/tune/host_budget.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/job.h"
#include "engine/tools/cli/opening.h"
#include "engine/tools/profile/step_trace.h"

namespace strata {

struct RunConfig;

/// Becomes true with the first signal that asks to stop; the next one ends the process the usual way.
const std::atomic<bool>& stop_on_signals();

/// The command as it was given, with mpirun before it if that started several ranks.
std::string same_command(const TrainCommand& command, const Job& job);

/// Keeps up to date what the job says to do after a hang.
class HangAdvice : public TrainListener {
 public:
  HangAdvice(Job& job, const TrainCommand& command);
  void on_safe_step(std::int64_t step) override;

 private:
  void set(const std::string& what);

  Job& job_;
  const TrainCommand& command_;
};

/// What the assembly of a run says, on standard error.
RunNotes notes_on_terminal();

/// Says what models are trained on: in one line if all have the same.
void say_what_was_read(const std::vector<PreparedModel>& models, const std::vector<std::string>& names,
                       Opening& opening);

/// When a run or a model saves, and where: a line for its start.
std::string saves_text(const CheckpointSection& checkpoint);

/// Says where the host's memory goes, and warns of budgets that it does not have.
void say_where_memory_goes(const RunConfig& config, const HostShare& host, Opening& opening);

/// Says what the run has measured of its drives, and which kernels it has chosen for products.
void say_machine(const Trainer& trainer, Opening& opening);

/// Throws ConfigError on every rank if reports could not be written, before a long run finds out at its end.
void check_reports(const TrainCommand& command, Job& job);

/// Says on standard error that there was no step for --profile to record.
void say_nothing_to_profile(const TrainCommand& command);

/// The file of a rank's trace: report.trace.path, of another rank than the first beside it.
std::string trace_of_rank(const std::string& path, int rank);

/// The trace that report.trace asks this rank for, or null; `models` names those of a run of several. Throws
/// ConfigError on every rank.
std::unique_ptr<StepTrace> open_trace(const RunConfig& config, Job& job,
                                      std::vector<std::string> models = {});

}  // namespace strata
