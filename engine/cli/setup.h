// What several commands start with: the run file's model.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/checkpoint/companions.h"
#include "engine/cli/commands.h"
#include "engine/config/run_config.h"
#include "engine/data/document_form.h"
#include "engine/model/model.h"
#include "engine/plan/search/host_budget.h"
#include "engine/plan/search/refusal.h"

namespace strata {

/// The model of the run file: a HF folder's config.json, or model.architecture with model.config.
Model load_model(const RunConfig& config);

/// The model of the run file as a rank has it: with parallel.tensor its part of each layer, with
/// parallel.context its tokens of each sequence. Throws ConfigError if that cannot be shared out so.
Model load_model_of_rank(const RunConfig& config, std::int64_t rank);

/// Says on standard error what that model's config asks for and the run leaves out.
void warn_of_model(const RunConfig& config);

/// Where that model's config.json and its tokenizer are: the tokenizer's is what data.tokenizer auto takes.
CompanionSources companion_sources(const RunConfig& config);

/// This machine, with what is free in the run's NVMe folders.
HostResources this_host(const RunConfig& config);

/// Name the keys of a machine's profile that stand beside its rates.
constexpr const char* kMemoryKey = "memory_bytes";
constexpr const char* kBf16Key = "bf16_instructions";
constexpr const char* kDeviceMemoryKey = "device_memory_bytes";
constexpr const char* kDrivesKey = "nvme_bytes";
constexpr const char* kMeasuredKey = "measured";

/// Memory of the machine whose profile is at `path`, by one of these keys, and whether its CPU has bf16
/// instructions; nothing for an empty path, or if the profile does not say.
std::optional<Bytes> profiled_memory(const std::string& path, const char* key = kMemoryKey);
std::optional<bool> profiled_bf16(const std::string& path);
/// Whether strata doctor has measured the rates of the profile at `path`.
bool profiled_as_measured(const std::string& path);

/// Throws ConfigError for a field that there is none of.
DocumentOptions document_options(const DocumentsCommand& command);

/// What the machine has that the run is planned for: the one whose profile is given, or this one. Folders on
/// drives tell how much is free in them, if they are there; else the profile says what its drives have. Of a
/// GPU it says how much memory of its own that has.
HostResources planned_host(const RunConfig& config);

/// What `plan()` gives. If it finds that the budgets do not hold the run, the sentence also says who knows
/// more.
template <typename Command, std::invocable MakePlan>
auto or_explain(const Command& command, const MakePlan& plan) {
  try {
    return plan();
  } catch (const BudgetError& error) {
    throw ConfigError(fmt::format("{}; {} says what else would help", error.what(), command.line("explain")));
  }
}

/// Throws ConfigError if write_json() could not write to `path`, which is the value of `option`, before a
/// long run finds out at its end.
void check_json_path(std::string_view option, const std::string& path);

/// Writes `json` to the file at `path`, or to standard output for "-". Nothing for an empty path.
void write_json(const std::string& path, const nlohmann::json& json);

}  // namespace strata
