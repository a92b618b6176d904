// What a user sees while several models are trained: on a terminal a table of them that is redrawn in place,
// elsewhere a line on all of them now and then.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/execute/model_run.h"
#include "engine/tools/report/live_block.h"
#include "engine/tools/report/live_panel.h"
#include "engine/tools/report/live_ticker.h"
#include "engine/tools/report/progress_text.h"
#include "engine/tools/report/step_time.h"

namespace strata {

/// A model of a run, as people know it.
struct ModelLabel {
  std::string name;
  std::int64_t steps = 0;  ///< train.steps
  std::int64_t tokens_per_step = 0;
};

/// Writes to standard error. On a terminal it has a line for each model and a line for the run. If models are
/// many it has lines for those under way that changed last. Otherwise a line on the run follows its first
/// step and its last one, and no 30 seconds pass without a line, unless a single step takes longer. A line
/// follows each model's last step. A line on one model begins with its name.
///
/// Any thread may call.
class ModelsTable {
 public:
  static constexpr double kSecondsPerLine = 30, kSecondsPerDrawing = 0.2;
  static constexpr std::size_t kMostLines = 20;  ///< of models

  /// What else it looks at.
  struct Surroundings {
    std::function<double()> seconds;  ///< by a clock that never goes back
    std::function<TerminalSize()> size = terminal_size;

    static Surroundings real();
  };

  /// `memory` is what the run needs: "device 24.00 MiB  host 1.20 GiB". `panel`, which a key adds to the
  /// table, has what the run has come to; without it there is none, and the table is redrawn only when
  /// something ends.
  ModelsTable(std::vector<ModelLabel> models, std::string memory, bool terminal,
              Surroundings surroundings = Surroundings::real(), std::optional<PanelPlan> panel = {});
  ModelsTable(const ModelsTable&) = delete;
  ModelsTable& operator=(const ModelsTable&) = delete;

  /// What a model's run tells; valid as long as the table. A model that goes on from a checkpoint, or that
  /// was trained before, is told of by on_safe_step().
  TrainListener& of(std::size_t model) { return rows_[model]; }
  /// The model ended before its last step.
  void end(std::size_t model, const std::string& why);
  /// Ends the live table; call before anything else is printed, or what the panel looks at is gone.
  void finish();

 private:
  class Row : public TrainListener {
   public:
    Row(ModelsTable& table, ModelLabel label) : table_(&table), label_(std::move(label)) {}

    void on_start(const std::string& source) override;
    void on_step(const StepReport& report) override;
    void on_validation(const ValidationPoint& point) override;
    void on_sampling(const SamplingProgress& progress) override;
    void on_samples(const SamplePoint& point) override;
    void on_checkpoint(const std::string& path) override;
    void on_safe_step(std::int64_t step) override;
    void on_warning(const std::string& warning) override;
    void end(const std::string& why);

    const std::string& name() const { return label_.name; }
    bool is_trained() const { return ended_.empty() && step_ >= label_.steps; }
    bool is_ended() const { return !ended_.empty(); }
    bool is_under_way() const { return !is_trained() && !is_ended(); }
    std::int64_t step() const { return step_; }
    /// Those that it makes, as far as is known.
    std::int64_t all_steps() const { return is_ended() ? step_ : label_.steps; }
    double tokens_per_second() const;  ///< 0: unknown
    double seconds_left() const;
    std::int64_t latest_change() const { return latest_change_; }
    std::vector<std::string> cells() const;

   private:
    void say(const std::string& line);

    ModelsTable* table_;
    ModelLabel label_;
    std::int64_t step_ = 0;  ///< finished ones
    double sampling_said_at_ = 0;
    std::optional<double> loss_, validation_;
    SmoothedStepTime step_time_;
    SkippedSteps skipped_steps_;
    std::string ended_;               ///< why
    std::int64_t latest_change_ = 0;  ///< a number that grows from change to change of any row
  };

  /// A row is no longer what it was: the table is drawn, or a line is due.
  void note_change(bool by_step);
  bool is_line_due(bool by_step);
  void draw();
  void start_ticker();
  void tick(std::optional<char> key);
  std::vector<const Row*> shown_rows(std::size_t most) const;
  /// "12 models: 3 trained, 9 under way".
  std::string counts_text() const;
  std::string speed_text() const;
  double seconds_left() const;

  std::string memory_;
  bool terminal_;
  Surroundings surroundings_;
  std::vector<Row> rows_;
  LiveBlock block_;
  std::int64_t changes_ = 0;
  double tokens_per_second_ = 0;  ///< of all models that took steps when the latest one was reported
  std::optional<double> drawn_at_, said_at_, step_at_;
  std::mutex mutex_;  ///< of all of it
  std::optional<LivePanel> panel_;
  bool panel_is_open_ = false;
  std::optional<LiveTicker> ticker_;  ///< last: its thread uses all else
};

}  // namespace strata
