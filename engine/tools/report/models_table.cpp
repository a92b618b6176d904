#include "engine/tools/report/models_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "engine/model/model.h"
#include "engine/tools/report/figures.h"

namespace strata {
namespace {

enum Column : std::size_t { kName, kStep, kLoss, kValidation, kSpeed, kLeft, kState };
constexpr std::size_t kColumns = 7;
using Cells = std::vector<std::string>;

/// Gives widths of all columns but the last, which takes what is left. A name gives way if there is little
/// room.
std::array<std::size_t, kColumns> widths_of(const std::vector<Cells>& rows, std::size_t columns) {
  constexpr std::size_t kShortestName = 8, kStateRoom = 10, kGap = 2;
  std::array<std::size_t, kColumns> widths = {};
  for (const Cells& cells : rows) {
    for (std::size_t c = 0; c < kState; ++c) widths[c] = std::max(widths[c], columns_of(cells[c]));
  }
  std::size_t others = kStateRoom;
  for (std::size_t c = kStep; c < kState; ++c) others += widths[c] + kGap;
  const std::size_t room = columns > others + kGap ? columns - others - kGap : 0;
  widths[kName] = std::min(widths[kName], std::max(room, kShortestName));
  return widths;
}

std::string line_of(const Cells& cells, const std::array<std::size_t, kColumns>& widths,
                    std::size_t columns) {
  std::string line = fmt::format("{:<{}}", shortened(cells[kName], widths[kName]), widths[kName]);
  for (std::size_t c = kStep; c < kState; ++c) line += fmt::format("  {:>{}}", cells[c], widths[c]);
  if (!cells[kState].empty()) line += "  " + cells[kState];
  return shortened(line, columns);
}

std::string tokens_text(double tokens_per_second) {
  return tokens_per_second > 0 ? fmt::format("{:.0f}", tokens_per_second) : "-";
}

}  // namespace

ModelsTable::Surroundings ModelsTable::Surroundings::real() {
  return {.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }};
}

ModelsTable::ModelsTable(std::vector<ModelLabel> models, std::string memory, bool terminal,
                         Surroundings surroundings, std::optional<PanelPlan> panel)
    : memory_(std::move(memory)), terminal_(terminal), surroundings_(std::move(surroundings)) {
  if (panel && terminal_) panel_.emplace(std::move(*panel));
  rows_.reserve(models.size());
  for (ModelLabel& model : models) rows_.emplace_back(*this, std::move(model));
}

void ModelsTable::Row::say(const std::string& line) {
  table_->block_.say(fmt::format("{}: {}", label_.name, line));
}

void ModelsTable::Row::on_start(const std::string& source) {
  const std::lock_guard lock(table_->mutex_);
  table_->start_ticker();
  say(source);
}

void ModelsTable::Row::on_step(const StepReport& report) {
  const std::lock_guard lock(table_->mutex_);
  step_ = report.step + 1;
  if (report.has_loss) loss_ = report.loss;
  step_time_.add(report);
  latest_change_ = ++table_->changes_;
  if (table_->panel_) table_->panel_->note_loss(report.loss);
  for (const std::string& line : skipped_steps_.lines_of(report)) say(line);
  if (is_trained() && !table_->terminal_)
    say(fmt::format("trained, step {}, loss {}", step_, loss_text(report)));
  table_->note_change(/*by_step=*/true);
}

void ModelsTable::Row::on_validation(const ValidationPoint& point) {
  const std::lock_guard lock(table_->mutex_);
  if (point.has_loss) validation_ = point.loss;
  latest_change_ = ++table_->changes_;
  say(validation_text(point));
}

void ModelsTable::Row::on_sampling(const SamplingProgress& progress) {
  const std::lock_guard lock(table_->mutex_);
  const double now = table_->surroundings_.seconds();
  if (progress.tokens == 1) sampling_said_at_ = now;
  if (table_->terminal_ || now - sampling_said_at_ <= kSecondsPerLine) return;
  say(line_of(progress));
  sampling_said_at_ = now;
}

void ModelsTable::Row::on_samples(const SamplePoint& point) {
  const std::lock_guard lock(table_->mutex_);
  for (const std::string& line : lines_of(point)) say(line);
}

void ModelsTable::Row::on_checkpoint(const std::string& path) {
  const std::lock_guard lock(table_->mutex_);
  say("saved " + path);
}

void ModelsTable::Row::on_safe_step(std::int64_t step) {
  const std::lock_guard lock(table_->mutex_);
  step_ = std::max(step_, step);
}

void ModelsTable::Row::on_warning(const std::string& warning) {
  const std::lock_guard lock(table_->mutex_);
  say("warning: " + warning);
}

void ModelsTable::Row::end(const std::string& why) {
  const std::lock_guard lock(table_->mutex_);
  ended_ = why.empty() ? "for no known reason" : why;
  latest_change_ = ++table_->changes_;
  say(fmt::format("ended at step {}/{}{}: {}", step_, label_.steps,
                  loss_ ? fmt::format(", loss {:.4f}", *loss_) : "", ended_));
}

double ModelsTable::Row::tokens_per_second() const {
  const double seconds = step_time_.seconds();
  return seconds > 0 ? static_cast<double>(label_.tokens_per_step) / seconds : 0;
}

double ModelsTable::Row::seconds_left() const {
  return is_under_way() ? static_cast<double>(label_.steps - step_) * step_time_.seconds() : 0;
}

std::vector<std::string> ModelsTable::Row::cells() const {
  const bool advances = is_under_way() && step_time_.seconds() > 0;
  return {label_.name,
          fmt::format("{:>{}}/{}", step_, fmt::formatted_size("{}", label_.steps), label_.steps),
          loss_text(loss_),
          loss_text(validation_),
          advances ? tokens_text(tokens_per_second()) : "-",
          advances ? format_duration(seconds_left()) : "-",
          is_ended() ? "ended: " + ended_ : (is_trained() ? "trained" : "")};
}

void ModelsTable::end(std::size_t model, const std::string& why) {
  rows_[model].end(why);
  const std::lock_guard lock(mutex_);
  note_change(/*by_step=*/false);
}

/// By now the run has its handlers of signals.
void ModelsTable::start_ticker() {
  if (!panel_ || ticker_) return;
  block_.say(kPanelHint);
  ticker_.emplace([this](std::optional<char> key) { tick(key); });
}

void ModelsTable::tick(std::optional<char> key) {
  const std::lock_guard lock(mutex_);
  panel_->sample(surroundings_.seconds());
  if (is_panel_key(key)) panel_is_open_ = !panel_is_open_;
  if (!drawn_at_) return;
  draw();
  drawn_at_ = surroundings_.seconds();
}

void ModelsTable::finish() {
  ticker_.reset();
  const std::lock_guard lock(mutex_);
  if (drawn_at_) draw();
  block_.finish();
  drawn_at_.reset();
}

void ModelsTable::note_change(bool by_step) {
  const double now = surroundings_.seconds();
  if (by_step) {
    double sum = 0;
    // The model of this step counts, though it may have been its last.
    for (const Row& row : rows_)
      if (row.is_under_way() || row.latest_change() == changes_) sum += row.tokens_per_second();
    tokens_per_second_ = sum;
  }
  if (!terminal_) {
    if (is_line_due(by_step)) {
      block_.say_progress(fmt::format("{}, {}", counts_text(), speed_text()));
      said_at_ = now;
    }
  } else if (!drawn_at_ || now - *drawn_at_ >= kSecondsPerDrawing) {
    draw();
    drawn_at_ = now;
  }
}

/// After the first step, the last one, and any whose successor would come too long after the last line.
bool ModelsTable::is_line_due(bool by_step) {
  if (std::ranges::none_of(rows_, &Row::is_under_way)) return true;
  if (!by_step) return false;
  const double now = surroundings_.seconds();
  const double since_step_before = now - std::exchange(step_at_, now).value_or(now);
  return !said_at_ || now - *said_at_ + since_step_before > kSecondsPerLine;
}

std::string ModelsTable::counts_text() const {
  const auto trained = std::ranges::count_if(rows_, &Row::is_trained);
  const auto ended = std::ranges::count_if(rows_, &Row::is_ended);
  std::int64_t steps = 0, all_steps = 0;
  for (const Row& row : rows_) {
    steps += row.step();
    all_steps += row.all_steps();
  }
  return fmt::format("{} models: {} trained, {}{} under way, step {}/{} of all", rows_.size(), trained,
                     ended > 0 ? fmt::format("{} ended, ", ended) : "", std::ssize(rows_) - trained - ended,
                     steps, all_steps);
}

std::string ModelsTable::speed_text() const {
  return fmt::format("{} tokens/s, {} left", tokens_text(tokens_per_second_),
                     format_duration(seconds_left()));
}

/// That of the model which needs the longest.
double ModelsTable::seconds_left() const {
  double longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.seconds_left());
  return longest;
}

/// In the run file's order. If there are more, those under way go before others, and those that changed last
/// before those.
std::vector<const ModelsTable::Row*> ModelsTable::shown_rows(std::size_t most) const {
  std::vector<const Row*> shown;
  shown.reserve(rows_.size());
  for (const Row& row : rows_) shown.push_back(&row);
  if (shown.size() <= most) return shown;
  std::ranges::stable_sort(shown, [](const Row* a, const Row* b) {
    if (a->is_under_way() != b->is_under_way()) return a->is_under_way();
    return a->latest_change() > b->latest_change();
  });
  shown.resize(most);
  std::ranges::sort(shown);
  return shown;
}

void ModelsTable::draw() {
  constexpr std::size_t kOtherLines = 4;  // heading, how many more, the run, and what is typed below
  const TerminalSize size = surroundings_.size();
  const std::size_t columns = std::max<std::size_t>(size.columns, 2) - 1;  // terminals wrap at the last one
  std::vector<std::string> lines;
  if (panel_is_open_) lines = panel_->lines(columns);
  lines.resize(std::min(lines.size(), std::max(size.rows, kOtherLines + 1) - kOtherLines - 1));
  const std::size_t rows = size.rows - std::min(size.rows, lines.size());
  const std::size_t most = std::clamp<std::size_t>(rows, kOtherLines + 1, kMostLines + kOtherLines);
  const std::vector<const Row*> shown = shown_rows(most - kOtherLines);
  std::vector<Cells> cells = {{"model", "step", "loss", "validation", "tokens/s", "left", ""}};
  cells.reserve(shown.size() + 1);
  for (const Row* row : shown) cells.push_back(row->cells());
  const auto widths = widths_of(cells, columns);
  for (const Cells& row : cells) lines.push_back(line_of(row, widths, columns));
  if (shown.size() < rows_.size())
    lines.push_back(shortened(fmt::format("… and {} more", rows_.size() - shown.size()), columns));
  lines.push_back(shortened(fmt::format("{}, {}  {}", counts_text(), speed_text(), memory_), columns));
  block_.draw(std::move(lines));
}

}  // namespace strata
