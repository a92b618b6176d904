#include "engine/tools/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/tools/report/figures.h"

namespace strata {
namespace {

/// Terminals wrap at the last column.
std::size_t columns_of_line(const TerminalSize& size) {
  return std::max<std::size_t>(size.columns, 2) - 1;
}

}  // namespace

ProgressLine::ProgressLine(const RunConfig& config, const Plan& plan, ProductRate& rate, Options options)
    : config_(config),
      plan_(plan),
      rate_(rate),
      said_rate_(rate.now()),
      terminal_(options.is_terminal),
      verbose_(options.is_verbose) {
  if (!terminal_ || !options.live) return;
  panel_.emplace(panel_plan(plan, std::move(options.live)));
}

void ProgressLine::finish() {
  ticker_.reset();
  const std::lock_guard lock(mutex_);
  block_.finish();
}

void ProgressLine::say(const std::string& line) {
  said_ = Clock::now();
  block_.say(line);
}

void ProgressLine::say_progress(const std::string& line) {
  said_ = Clock::now();
  block_.say_progress(line);
}

/// The line comes last, behind which the cursor rests.
void ProgressLine::draw() {
  const TerminalSize size = terminal_size();
  const std::size_t columns = columns_of_line(size);
  std::vector<std::string> lines;
  if (panel_is_open_) lines = panel_->lines(columns);
  lines.resize(std::min(lines.size(), std::max<std::size_t>(size.rows, 2) - 2));
  lines.push_back(shortened(line_, columns));
  block_.draw(std::move(lines));
}

/// A line that has not changed is drawn anew only with the panel.
void ProgressLine::tick(std::optional<char> key) {
  const std::lock_guard lock(mutex_);
  panel_->sample(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  if (is_panel_key(key)) {
    panel_is_open_ = !panel_is_open_;
  } else if (!panel_is_open_) {
    return;
  }
  draw();
}

/// By now the run has its handlers of signals.
void ProgressLine::on_start(const std::string& source) {
  const std::lock_guard lock(mutex_);
  say("start    " + source);
  if (!panel_) return;
  say(kPanelHint);
  ticker_.emplace([this](std::optional<char> key) { tick(key); });
}

void ProgressLine::on_step(const StepReport& report) {
  const std::lock_guard lock(mutex_);
  step_time_.add(report);
  for (const std::string& line : skipped_steps_.lines_of(report)) say(line);
  const double utilisation = rate_.share(plan_.only().flops.model, step_time_.seconds());
  if (verbose_) say_rate();
  if (terminal_) {
    if (panel_) panel_->note_loss(report.loss);
    line_ = step_ = line_of(report, utilisation, columns_of_line(terminal_size()));
    draw();
  } else if (is_due(report)) {
    say_progress(line_of(report, utilisation, kAllColumns));
    unsaid_seconds_ = 0;
  }
}

/// The first step, the last one, and any whose successor would end too long after the last line.
bool ProgressLine::is_due(const StepReport& report) {
  unsaid_seconds_ += report.seconds;
  const bool first = std::exchange(begins_, false);
  return first || report.step + 1 == config_.train.steps ||
         unsaid_seconds_ + step_time_.seconds() > kSecondsPerLine;
}

/// A rate that rises bit by bit is said now and then.
void ProgressLine::say_rate() {
  constexpr double kMuchMore = 1.1;
  if (rate_.now() < kMuchMore * said_rate_) return;
  said_rate_ = rate_.now();
  say(
      fmt::format("the run computes {:.3e} FLOP/s, and products reached {:.3e} as it began: MFU counts by "
                  "the higher rate",
                  rate_.now(), rate_.measured()));
}

std::string ProgressLine::line_of(const StepReport& report, double utilisation, std::size_t columns) const {
  const double left = static_cast<double>(config_.train.steps - report.step - 1) * step_time_.seconds();
  const double speed = static_cast<double>(plan_.training().program.loss_terms) / step_time_.seconds();
  std::vector<LinePart> parts = {
      {fmt::format("step {}/{}", report.step + 1, config_.train.steps)},
      {"loss " + loss_text(report)},
      {fmt::format("norm {:.2f}", report.grad_norm), 5},
      {fmt::format("lr {:.2e}", report.learning_rate), 6},
      {fmt::format("{:.0f} tokens/s", speed), 0, fmt::format("{:.0f} tok/s", speed)},
      {fmt::format("MFU {:.0f} %", 100 * utilisation), 4}};
  int least = 1;  // memory that is the scarcer stays longer
  for (const Tier tier : used_tiers(plan_.budgets)) {
    const Bytes bytes = plan_.arena_bytes(tier);
    parts.push_back({fmt::format("{} {}", name_of(tier), format_bytes(bytes)), least++,
                     fmt::format("{} {}", name_of(tier), short_bytes(bytes))});
  }
  parts.push_back({format_duration(left) + " left"});
  return fitted(parts, columns);
}

void ProgressLine::on_validation(const ValidationPoint& point) {
  const std::lock_guard lock(mutex_);
  say(validation_text(point));
}
void ProgressLine::on_sampling(const SamplingProgress& progress) {
  const std::lock_guard lock(mutex_);
  if (terminal_) {
    line_ = strata::line_of(progress);
    draw();
  } else if (Clock::now() - said_ > std::chrono::duration<double>(kSecondsPerLine)) {
    say_progress(strata::line_of(progress));
  }
}
void ProgressLine::on_samples(const SamplePoint& point) {
  const std::lock_guard lock(mutex_);
  for (const std::string& line : lines_of(point)) say(line);
  line_ = step_;
  if (terminal_) draw();
}
void ProgressLine::on_checkpoint(const std::string& path) {
  const std::lock_guard lock(mutex_);
  say("saved " + path);
}
void ProgressLine::on_warning(const std::string& warning) {
  const std::lock_guard lock(mutex_);
  say("warning: " + warning);
}

/// The file that logs write into.
class MetricsLog::File {
 public:
  explicit File(const std::string& path);
  void write(const nlohmann::json& line);

 private:
  std::ofstream file_;
  bool failed_ = false;
};

MetricsLog::File::File(const std::string& path) {
  try {
    make_folder_of(path);
  } catch (const IoError& error) {
    throw ConfigError(fmt::format("report.metrics: {}", error.what()));
  }
  const WatchedWait wait([&path] {
    std::error_code error;
    const bool is_pipe = std::filesystem::is_fifo(path, error);
    return fmt::format("opening {} (report.metrics{})", path, is_pipe ? ", a pipe that nobody reads" : "");
  });
  file_.open(path, std::ios::app);
  if (!file_)
    throw ConfigError(fmt::format("report.metrics: cannot write {}: {}", path, std::strerror(errno)));
}

/// A full disk must not end a run that could go on, but it must not pass unseen either.
void MetricsLog::File::write(const nlohmann::json& line) {
  {
    const WatchedWait wait([] { return std::string("writing report.metrics"); });
    file_ << json_text(line) << std::endl;
  }
  if (file_ || failed_) return;
  failed_ = true;
  say_above_blocks(
      fmt::format("warning: report.metrics: a line could not be written ({}); the log ends here\n",
                  std::strerror(errno)));
}

MetricsLog::MetricsLog(const std::string& path) : file_(std::make_shared<File>(path)) {}

MetricsLog MetricsLog::of_model(const std::string& name) const {
  MetricsLog log = *this;
  log.model_ = name;
  return log;
}

void MetricsLog::on_step(const StepReport& report) {
  write(step_json(report));
}

void MetricsLog::on_validation(const ValidationPoint& point) {
  write(validation_json(point));
}

void MetricsLog::on_samples(const SamplePoint& point) {
  write(samples_json(point));
}

void MetricsLog::say_first(const std::string& key, nlohmann::json value) {
  first_[key] = std::move(value);
}

void MetricsLog::write(nlohmann::json line) {
  line.update(std::exchange(first_, nlohmann::json::object()));
  if (!model_.empty()) line["model"] = model_;
  file_->write(line);
}

void Listeners::on_start(const std::string& source) {
  for (TrainListener* listener : listeners_) listener->on_start(source);
}
void Listeners::on_step(const StepReport& report) {
  for (TrainListener* listener : listeners_) listener->on_step(report);
}
void Listeners::on_validation(const ValidationPoint& point) {
  for (TrainListener* listener : listeners_) listener->on_validation(point);
}
void Listeners::on_sampling(const SamplingProgress& progress) {
  for (TrainListener* listener : listeners_) listener->on_sampling(progress);
}
void Listeners::on_samples(const SamplePoint& point) {
  for (TrainListener* listener : listeners_) listener->on_samples(point);
}
void Listeners::on_checkpoint(const std::string& path) {
  for (TrainListener* listener : listeners_) listener->on_checkpoint(path);
}
void Listeners::on_safe_step(std::int64_t step) {
  for (TrainListener* listener : listeners_) listener->on_safe_step(step);
}
void Listeners::on_warning(const std::string& warning) {
  for (TrainListener* listener : listeners_) listener->on_warning(warning);
}

}  // namespace strata
