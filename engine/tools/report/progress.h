// What a user sees while a run goes on: a live line on a terminal, a plain line now and then elsewhere, and
// metrics as JSONL.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/run/execute/trainer.h"
#include "engine/tools/report/live_block.h"
#include "engine/tools/report/live_panel.h"
#include "engine/tools/report/live_ticker.h"
#include "engine/tools/report/product_rate.h"
#include "engine/tools/report/progress_text.h"
#include "engine/tools/report/step_time.h"

namespace strata {

struct RunConfig;

/// Writes to standard error. On a terminal one line is rewritten after every step, and a key adds a panel
/// above it. Otherwise a line follows the first step and the last one, and no 30 seconds of steps pass
/// without a line, unless a single step takes longer.
class ProgressLine : public TrainListener {
 public:
  static constexpr double kSecondsPerLine = 30;

  struct Options {
    bool is_terminal = false;
    bool is_verbose = false;  ///< a line says when a step beats the rate of products
    /// What the run has come to, for the panel. Without it there is none.
    std::function<LiveFigures()> live = {};
  };
  /// The configuration, the plan and the rate must outlive it; a step that beats the rate raises it.
  ProgressLine(const RunConfig& config, const Plan& plan, ProductRate& rate, Options options);
  /// Ends the live line; call before anything else is printed.
  void finish();

  void on_start(const std::string& source) override;
  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_sampling(const SamplingProgress& progress) override;
  void on_samples(const SamplePoint& point) override;
  void on_checkpoint(const std::string& path) override;
  void on_warning(const std::string& warning) override;

 private:
  using Clock = std::chrono::steady_clock;

  void say(const std::string& line);
  void say_progress(const std::string& line);
  void draw();
  void tick(std::optional<char> key);
  bool is_due(const StepReport& report);
  std::string line_of(const StepReport& report, double utilisation, std::size_t columns) const;
  void say_rate();

  const RunConfig& config_;
  const Plan& plan_;
  ProductRate& rate_;
  double said_rate_;  ///< the last that the user knows
  bool terminal_, verbose_;
  SmoothedStepTime step_time_;
  bool begins_ = true;         ///< no step has ended yet
  double unsaid_seconds_ = 0;  ///< of steps since the last line
  Clock::time_point said_ = Clock::now();
  SkippedSteps skipped_steps_;
  std::mutex mutex_;  ///< of all that is drawn
  LiveBlock block_;
  std::string line_;  ///< that is shown
  std::string step_;  ///< the line of the latest step
  std::optional<LivePanel> panel_;
  bool panel_is_open_ = false;
  std::optional<LiveTicker> ticker_;  ///< last: its thread uses all else
};

/// One JSON object per step and per validation, appended to report.metrics; each line is flushed. In a run of
/// several models there is a log of each that names it, and all may share a file.
class MetricsLog : public TrainListener {
 public:
  /// Throws ConfigError if the file cannot be opened.
  explicit MetricsLog(const std::string& path);
  /// Writes into the same file, each line with "model": name. REQUIRES: one call at a time of all logs that
  /// share a file.
  MetricsLog of_model(const std::string& name) const;
  /// Puts this key into the next line, which is the first of the run that says it.
  void say_first(const std::string& key, nlohmann::json value);

  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_samples(const SamplePoint& point) override;

 private:
  class File;
  void write(nlohmann::json line);

  std::shared_ptr<File> file_;
  std::string model_;                                ///< empty: of a run of one model
  nlohmann::json first_ = nlohmann::json::object();  ///< what the next line has besides
};

/// Passes every event on to all listeners, in order.
class Listeners : public TrainListener {
 public:
  void add(TrainListener& listener) { listeners_.push_back(&listener); }
  void on_start(const std::string& source) override;
  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_sampling(const SamplingProgress& progress) override;
  void on_samples(const SamplePoint& point) override;
  void on_checkpoint(const std::string& path) override;
  void on_safe_step(std::int64_t step) override;
  void on_warning(const std::string& warning) override;

 private:
  std::vector<TrainListener*> listeners_;
};

}  // namespace strata
