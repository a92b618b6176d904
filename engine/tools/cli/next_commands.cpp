#include "engine/tools/cli/next_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/nth.h"
#include "engine/config/run_config.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/execute/run_record.h"
#include "engine/run/generate/prompts.h"
#include "engine/tools/cli/own_name.h"

namespace strata {

namespace fs = std::filesystem;

namespace {

bool has_conversations(const DataFacts& facts) {
  const auto count = [&](DocumentKind kind) { return nth(facts.read.documents, kind); };
  return count(DocumentKind::messages) + count(DocumentKind::sharegpt) > 0;
}

/// The run's sampling where it is not what generate does by itself, so that the answer is like the samples.
std::vector<std::string> sampling_options(const SamplesSection& samples) {
  const SamplesSection otherwise;
  std::vector<std::string> words;
  const auto add = [&](const char* option, const auto& value, const auto& usual) {
    if (value != usual) words.insert(words.end(), {option, fmt::format("{}", value)});
  };
  add("--temperature", samples.temperature, otherwise.temperature);
  add("--top-p", samples.top_p, otherwise.top_p);
  add("--top-k", samples.top_k, otherwise.top_k);
  return words;
}

/// A tokenizer's checkpoints have its files. Bytes are no file, so they are named.
std::vector<std::string> words_to_try(const PreparedModel& model) {
  const RunConfig& config = model.config;
  const bool is_chat = has_conversations(model.facts);
  std::vector<std::string> words = {is_chat ? "chat" : "generate", config.checkpoint.path};
  if (!is_chat) {
    const std::vector<std::string>& prompts = config.samples.prompts;
    if (config.data.tokenizer == Tokenizer::bytes) words.insert(words.end(), {"--tokenizer", "bytes"});
    words.insert(words.end(), {"--prompt", prompts.empty() ? "Once upon a time" : prompts.front()});
  }
  const std::vector<std::string> sampling = sampling_options(config.samples);
  words.insert(words.end(), sampling.begin(), sampling.end());
  return words;
}

/// The epochs that these steps are: whole ones, unless they are just what the run asks for.
double epochs_of(const TrainSection& train, std::int64_t steps) {
  if (steps == train.steps) return *train.epochs;
  return std::ceil(*train.epochs * static_cast<double>(steps) / static_cast<double>(train.steps));
}

}  // namespace

std::string commands_of_model(const PreparedModel& model, const std::string& out) {
  const std::string& folder = model.config.checkpoint.path;
  std::string text;
  if (!tokenizer_of_run(model.config).empty())
    text += fmt::format("  try it    {}\n", command_line(words_to_try(model)));
  return text + fmt::format("  export    {}\n", command_line({"export", folder, out}));
}

std::string command_to_train_on(const TrainCommand& command, const RunConfig& config, std::int64_t trained,
                                const Job& job) {
  TrainCommand longer = command;
  std::erase_if(longer.overrides, [](const std::string& given) {
    return given.starts_with("train.steps=") || given.starts_with("train.epochs=");
  });
  longer.overrides.push_back(config.train.epochs
                                 ? fmt::format("train.epochs={}", 2 * epochs_of(config.train, trained))
                                 : fmt::format("train.steps={}", 2 * trained));
  return same_command(longer, job);
}

std::vector<std::string> models_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code cannot_be_asked;
    if (entry->is_directory(cannot_be_asked) &&
        !checkpoint_folders(FileSystem::real(), entry->path()).empty())
      names.push_back(entry->path().filename().string());
  }
  std::erase(names, "set-aside");
  std::ranges::sort(names);
  return names;
}

std::string best_model_in(const fs::path& folder) try {
  return load_run_record(folder).best;
} catch (const Error&) {
  return "";
}

void refuse_several_models(const fs::path& folder, const std::vector<std::string>& words) {
  std::error_code cannot_be_asked;
  if (!fs::is_directory(folder, cannot_be_asked)) return;
  if (is_there(folder / kManifestName) || is_there(folder / "config.json")) return;
  if (!checkpoint_folders(FileSystem::real(), folder).empty()) return;
  const std::vector<std::string> names = models_in(folder);
  if (names.empty()) return;
  const std::string recorded = best_model_in(folder);
  const std::string best = std::ranges::count(names, recorded) > 0 ? recorded : "";
  ask_for_one_model(folder.string(), names, best, (folder / (best.empty() ? names.front() : best)).string(),
                    words);
}

void ask_for_one_model(const std::string& what, const std::vector<std::string>& names,
                       const std::string& best, const std::string& folder, std::vector<std::string> words) {
  constexpr std::size_t kMostNames = 8;
  const std::size_t shown = std::min(names.size(), kMostNames);
  std::string list =
      fmt::to_string(fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
  if (shown < names.size()) list += fmt::format("; and {} more", names.size() - shown);
  std::ranges::replace(words, std::string(), folder);
  const std::string which =
      best.empty() ? "none is known to be the best before the run's end" : "the best is " + best;
  throw ConfigError(
      fmt::format("{} has the models {}; {}; name one: {}", what, list, which, command_line(words)));
}

}  // namespace strata
