#include "engine/run/execute/run_record.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_text.h"
#include "engine/model/model.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "strata run";
constexpr std::int64_t kVersion = 1;

nlohmann::json to_json(const RecordedModel& model) {
  nlohmann::json json = {{"steps", model.steps},     {"step", model.step},
                         {"ended", model.ended},     {"state_hash", model.state_hash},
                         {"skipped", model.skipped}, {"saves", model.saves}};
  if (model.loss) json["loss"] = *model.loss;
  if (model.validation_loss) json["validation_loss"] = *model.validation_loss;
  return json;
}

/// JSON has no word for a loss that is not finite.
double number(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

std::optional<double> number_if_there(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? std::nullopt : std::optional(number(*found));
}

/// Throws ConfigError; JSON's own conversion would make something of any number.
std::int64_t count_in(const nlohmann::json& json, const char* key) {
  const nlohmann::json& value = json.at(key);
  if (!value.is_number_integer() || value > INT64_MAX || value < 0)
    throw ConfigError(fmt::format("{} is {}, not a count", key, json_text(value)));
  return value.get<std::int64_t>();
}

RecordedModel model_from(const nlohmann::json& json) {
  return {.steps = count_in(json, "steps"),
          .step = count_in(json, "step"),
          .ended = json.at("ended"),
          .state_hash = json.at("state_hash"),
          .loss = number_if_there(json, "loss"),
          .validation_loss = number_if_there(json, "validation_loss"),
          .skipped = count_in(json, "skipped"),
          .saves = count_in(json, "saves")};
}

RunRecord record_from(const nlohmann::json& json) {
  RunRecord record;
  if (json.at("format") != kFormat) throw ConfigError("its format is another");
  if (json.at("version") != kVersion)
    throw ConfigError(
        fmt::format("its version is {} and this program's {}", json_text(json.at("version")), kVersion));
  record.run_file = json.value("run_file", "");
  record.best = json.value("best", "");
  for (const auto& [name, model] : json.at("models").items()) record.models[name] = model_from(model);
  for (const nlohmann::json& rung : json.at("rungs")) {
    const std::int64_t step = count_in(rung, "step");
    if (rung.contains("losses")) {
      for (const auto& [name, loss] : rung.at("losses").items()) record.losses[step][name] = number(loss);
    }
    if (rung.contains("ended"))
      record.rungs[step] = rung.at("ended").get<std::map<std::string, std::string>>();
  }
  return record;
}

}  // namespace

RecordedModel recorded(const TrainResult& result, std::int64_t steps) {
  RecordedModel model = {.steps = steps,
                         .step = result.counters.step,
                         .ended = result.ended,
                         .state_hash = result.state_hash,
                         .skipped = result.counters.skipped,
                         .saves = result.saves};
  model.loss = recent_loss(result);
  if (!result.validation.empty() && result.validation.back().has_loss)
    model.validation_loss = result.validation.back().loss;
  return model;
}

TrainResult result_of(const RecordedModel& model) {
  TrainResult result;
  result.counters = {model.step, model.step - model.skipped, model.skipped};
  if (model.loss) result.steps.push_back({.step = model.step - 1, .loss = *model.loss});
  if (model.validation_loss) result.validation.push_back({model.step, *model.validation_loss});
  result.saves = model.saves;
  result.state_hash = model.state_hash;
  result.ended = model.ended;
  return result;
}

std::string to_text(const RunRecord& record) {
  nlohmann::json json = {{"format", kFormat},
                         {"version", kVersion},
                         {"models", nlohmann::json::object()},
                         {"rungs", nlohmann::json::array()}};
  if (!record.run_file.empty()) json["run_file"] = record.run_file;
  if (!record.best.empty()) json["best"] = record.best;
  for (const auto& [name, model] : record.models) json["models"][name] = to_json(model);
  std::map<std::int64_t, nlohmann::json> rungs;
  for (const auto& [step, losses] : record.losses) rungs[step]["losses"] = losses;
  for (const auto& [step, ended] : record.rungs) rungs[step]["ended"] = ended;
  for (auto& [step, rung] : rungs) {
    rung["step"] = step;
    json["rungs"].push_back(std::move(rung));
  }
  return json_text(json, 2) + "\n";
}

RunRecord parse_run_record(const std::string& text, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    return ConfigError(
        fmt::format("{}: is no record of a run ({}); begin anew with --fresh, or take the file away: models "
                    "then resume from their checkpoints",
                    where, why));
  };
  try {
    return record_from(parse_json(text, "its text"));
  } catch (const nlohmann::json::exception& error) {
    throw refuse(json_reason(error));
  } catch (const ConfigError& error) {
    throw refuse(error.what());
  }
}

fs::path run_record_in(const fs::path& folder) {
  return folder / "run.json";
}

RunRecord load_run_record(const fs::path& folder, FileSystem& files) {
  const fs::path path = run_record_in(folder);
  if (!files.exists(path)) return {};
  return parse_run_record(read_file(path, files), path.string());
}

void set_aside_run_record(const fs::path& folder, FileSystem& files) {
  const fs::path path = run_record_in(folder);
  if (!files.exists(path)) return;
  fs::path aside = folder / "run.set-aside.json";
  for (int copy = 2; files.exists(aside); ++copy) aside = folder / fmt::format("run.set-aside-{}.json", copy);
  files.rename(path, aside);
  files.sync_folder(folder);
}

void store_run_record(const RunRecord& record, const fs::path& folder, FileSystem& files) {
  files.create_folders(folder);
  replace_file(files, run_record_in(folder), to_text(record));
}

}  // namespace strata
