// What several commands have in common: warnings, refusals, and JSON that they write.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/input/data/document_form.h"
#include "engine/plan/place/refusal.h"
#include "engine/tools/cli/commands.h"

namespace strata {

/// Throws ConfigError for a field that there is none of.
DocumentOptions document_options(const DocumentsCommand& command);

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
