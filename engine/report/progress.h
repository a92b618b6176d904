// What a user sees while a run goes on: a live line on a terminal, a plain line now and then elsewhere, and
// metrics as JSONL.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>

#include "engine/execute/trainer.h"
#include "engine/report/step_time.h"

namespace strata {

/// Writes to standard error. On a terminal one line is rewritten after every step; otherwise a line follows
/// the first step, the last one, and others so that no 30 seconds of steps pass without one, unless a single
/// step takes longer.
class ProgressLine : public TrainListener {
 public:
  static constexpr double kSecondsPerLine = 30;

  ProgressLine(const RunConfig& config, const Plan& plan, const MachineRates& rates, bool terminal);
  /// Ends the live line; call before anything else is printed.
  void finish();

  void on_start(const std::string& source) override;
  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_checkpoint(const std::string& path) override;
  void on_warning(const std::string& warning) override;

 private:
  void say(const std::string& line);
  void say_if_skipped(const StepReport& report);
  bool is_due(const StepReport& report);
  std::string line_of(const StepReport& report) const;

  const RunConfig& config_;
  const Plan& plan_;
  const MachineRates& rates_;
  bool terminal_;
  bool line_open_ = false;
  SmoothedStepTime step_time_;
  bool begins_ = true;         ///< no step has ended yet
  double unsaid_seconds_ = 0;  ///< of steps since the last line
  std::int64_t skipped_in_a_row_ = 0;
};

/// One JSON object per step and per validation, appended to report.metrics; each line is flushed.
class MetricsLog : public TrainListener {
 public:
  /// Throws ConfigError if the file cannot be opened.
  explicit MetricsLog(const std::string& path);
  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;

 private:
  void write(const nlohmann::json& line);

  std::ofstream file_;
  bool failed_ = false;
};

/// Passes every event on to all listeners, in order.
class Listeners : public TrainListener {
 public:
  void add(TrainListener& listener) { listeners_.push_back(&listener); }
  void on_start(const std::string& source) override;
  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_checkpoint(const std::string& path) override;
  void on_safe_step(std::int64_t step) override;
  void on_warning(const std::string& warning) override;

 private:
  std::vector<TrainListener*> listeners_;
};

}  // namespace strata
