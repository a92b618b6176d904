#include "engine/tools/report/models_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/run/execute/plan_check.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/progress_text.h"
#include "engine/tools/report/step_time.h"

namespace strata {
namespace {

std::optional<double> validation_of(const TrainResult& result) {
  if (result.validation.empty() || !result.validation.back().has_loss) return std::nullopt;
  return result.validation.back().loss;
}

/// What models are ranked by: nothing if the model has no place.
std::optional<double> score_of(const ModelOutcome& model, bool by_validation) {
  if (!model.ended.empty() || updated_nothing(model.result)) return std::nullopt;
  return by_validation ? validation_of(model.result) : recent_loss(model.result);
}

double tokens_per_second_of(const ModelOutcome& model) {
  const double seconds = step_time(model.result.steps).seconds;
  if (model.plan == nullptr || seconds == 0) return 0;
  return static_cast<double>(model.plan->training.program.loss_terms) / seconds;
}

bool is_trained(const ModelOutcome& model) {
  return model.result.counters.step >= model.config->train.steps;
}

std::string state_text(const ModelOutcome& model) {
  if (!model.ended.empty()) return "ended: " + model.ended;
  if (updated_nothing(model.result)) return "learned nothing: no step's gradients were finite";
  if (is_trained(model)) return model.plan == nullptr ? "trained before" : "trained";
  return "stopped";
}

std::string overrides_text(const ModelOutcome& model) {
  std::vector<std::string> texts;
  texts.reserve(model.overrides.size());
  for (const auto& [key, value] : model.overrides) texts.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}", fmt::join(texts, " "));
}

using Row = std::array<std::string, 7>;

Row cells_of(const ModelOutcome& model, const std::string& rank) {
  return {rank,
          model.name,
          overrides_text(model),
          fmt::format("{}/{}", model.result.counters.step, model.config->train.steps),
          loss_text(recent_loss(model.result)),
          loss_text(validation_of(model.result)),
          state_text(model)};
}

std::string table_text(const std::vector<Row>& rows) {
  constexpr std::array kIsNumber = {true, false, false, true, true, true, false};
  std::array<std::size_t, kIsNumber.size()> widths = {};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      line += c == 0 ? "" : "  ";
      const bool is_last = c + 1 == row.size();
      line += kIsNumber[c] ? fmt::format("{:>{}}", row[c], widths[c])
                           : fmt::format("{:<{}}", row[c], is_last ? 0 : widths[c]);
    }
    text += line + '\n';
  }
  return text;
}

/// What is not a number is worse than any; worse still is none.
double comparable(const std::optional<double>& loss) {
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  return !loss || std::isnan(*loss) ? kWorst : *loss;
}

/// Models that have no place in the ranking. Losses of one step compare, so who came further is the first.
std::vector<std::size_t> unranked(const ModelsReport& report, const std::vector<std::size_t>& ranking) {
  std::vector<std::size_t> others;
  for (std::size_t m = 0; m < report.models.size(); ++m)
    if (std::ranges::find(ranking, m) == ranking.end()) others.push_back(m);
  const bool by_validation = report.ranks_by_validation();
  std::ranges::stable_sort(others, {}, [&](std::size_t m) {
    const TrainResult& result = report.models[m].result;
    return std::pair(-result.counters.step,
                     comparable(by_validation ? validation_of(result) : recent_loss(result)));
  });
  return others;
}

/// Ranked models, then those that were ended or are not to be compared.
std::string models_text(const ModelsReport& report) {
  std::vector<Row> rows = {{"rank", "model", "overrides", "step", "loss", "validation", "state"}};
  rows.reserve(report.models.size() + 1);
  if (std::ranges::all_of(report.models, [](const ModelOutcome& model) { return model.overrides.empty(); }))
    rows.front()[2].clear();
  const std::vector<std::size_t> ranking = report.ranking();
  for (const std::size_t m : ranking)
    rows.push_back(cells_of(report.models[m], fmt::format("{}", rows.size())));
  for (const std::size_t m : unranked(report, ranking)) rows.push_back(cells_of(report.models[m], "-"));
  return table_text(rows);
}

template <typename Value>
nlohmann::json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json model_json(const ModelOutcome& model, const std::optional<std::size_t>& rank) {
  const TrainResult& result = model.result;
  nlohmann::json overrides = nlohmann::json::object();
  for (const auto& [key, value] : model.overrides) overrides[key] = value;
  return {{"name", model.name},
          {"overrides", overrides},
          {"rank", or_null(rank)},
          {"steps", result.counters.step},
          {"skipped_steps", result.counters.skipped},
          {"loss", or_null(recent_loss(result))},
          {"losses", list_of(result.steps, &StepReport::loss)},
          {"validation_loss", or_null(validation_of(result))},
          {"validation", validation_json(result.validation)},
          {"samples", samples_json(result.samples)},
          {"ended", text_or_null(model.ended)},
          {"interrupted", model.ended.empty() && !is_trained(model)},
          {"tokens_per_second", tokens_per_second_of(model)},
          {"checkpoint", text_or_null(model.config->checkpoint.path)},
          {"saves", result.saves},
          {"state_hash", text_or_null(result.state_hash)}};
}

}  // namespace

bool ModelsReport::ranks_by_validation() const {
  const auto lacks_it = [](const ModelOutcome& model) {
    return model.ended.empty() && !model.result.steps.empty() && model.result.validation.empty();
  };
  const auto has_it = [](const ModelOutcome& model) { return score_of(model, true).has_value(); };
  return by_validation && std::ranges::none_of(models, lacks_it) && std::ranges::any_of(models, has_it);
}

std::vector<std::size_t> ModelsReport::ranking() const {
  const bool is_by_validation = ranks_by_validation();
  std::vector<std::size_t> ranked;
  ranked.reserve(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (score_of(models[m], is_by_validation)) ranked.push_back(m);
  }
  std::ranges::stable_sort(ranked, {},
                           [&](std::size_t m) { return comparable(score_of(models[m], is_by_validation)); });
  return ranked;
}

double ModelsReport::tokens_per_second() const {
  std::int64_t tokens = 0;
  for (const ModelOutcome& model : models) {
    if (model.plan != nullptr)
      tokens += std::ssize(model.result.steps) * model.plan->training.program.loss_terms;
  }
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

double ModelsReport::idle_share() const {
  const double busy = measured.busy_seconds[Lane::compute];
  return seconds > 0 ? std::max(0.0, 1 - busy / seconds) : 0;
}

std::string leaderboard_text(const ModelsReport& report, bool is_verbose) {
  std::string text;
  const auto line = [&](const std::string& content) { text += content + '\n'; };
  line(fmt::format("leaderboard by {}loss{} the mean over the last {} steps",
                   report.ranks_by_validation() ? "the latest validation " : "",
                   report.ranks_by_validation() ? "; loss is" : ",", kStepsOfLoss));
  text += models_text(report);
  if (report.ranking().size() + 1 < report.models.size())
    line("models without a rank: those that came further first, then by loss");
  if (report.plan == nullptr) {
    line("nothing was left to train: each model was trained or ended before");
    return text;
  }
  line(fmt::format("all models {}, {:.0f} tokens/s", format_duration(report.seconds),
                   report.tokens_per_second()));
  line(fmt::format("computing  {:.1f} % of the time, {:.1f} % idle", 100 * (1 - report.idle_share()),
                   100 * report.idle_share()));
  for (const Tier tier : used_tiers(report.plan->budgets))
    line("memory     " + tier_text(tier_plan(*report.plan, tier), report.measured));
  for (const Link link : used_links(report.plan->training(), report.plan->budgets))
    line("traffic    " + moved_text(link, report.planned[link], report.measured));
  if (is_verbose) line("turns      " + sequence_text(*report.plan));
  return text;
}

nlohmann::json models_json(const ModelsReport& report) {
  const std::vector<std::size_t> ranking = report.ranking();
  nlohmann::json models = nlohmann::json::array();
  for (std::size_t m = 0; m < report.models.size(); ++m) {
    const auto place = std::ranges::find(ranking, m);
    std::optional<std::size_t> rank;
    if (place != ranking.end()) rank = index_of(ranking, place) + 1;
    models.push_back(model_json(report.models[m], rank));
  }
  nlohmann::json json = {{"models", models},
                         {"ranked_by", report.ranks_by_validation() ? "validation_loss" : "loss"}};
  if (report.plan == nullptr) return json;
  json.update(
      {{"seconds", report.seconds},
       {"tokens_per_second", report.tokens_per_second()},
       {"idle_share", report.idle_share()},
       {"busy_seconds", busy_json(report.measured)},
       {"machine", rates_json(report.rates)},
       {"memory",
        by_tier([&](Tier tier) { return tier_json(tier_plan(*report.plan, tier), report.measured); })},
       {"traffic",
        by_link([&](Link link) { return moved_json(link, report.planned[link], report.measured); })}});
  json.update(sequences_json(*report.plan));
  return json;
}

}  // namespace strata
