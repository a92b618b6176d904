#include "engine/cli/next_commands.h"

#include <fmt/format.h>

#include <vector>

#include "engine/cli/own_name.h"
#include "engine/generate/prompts.h"

namespace strata {
namespace {

bool has_conversations(const DataFacts& facts) {
  const auto count = [&](DocumentKind kind) { return facts.read.documents[static_cast<std::size_t>(kind)]; };
  return count(DocumentKind::messages) + count(DocumentKind::sharegpt) > 0;
}

/// A tokenizer's checkpoints have its files. Bytes are no file, so they are named.
std::vector<std::string> words_to_try(const PreparedModel& model) {
  const RunConfig& config = model.config;
  if (has_conversations(model.facts)) return {"chat", config.checkpoint.path};
  const std::vector<std::string>& prompts = config.samples.prompts;
  std::vector<std::string> words = {"generate", config.checkpoint.path};
  if (config.data.tokenizer == Tokenizer::bytes) words.insert(words.end(), {"--tokenizer", "bytes"});
  words.insert(words.end(), {"--prompt", prompts.empty() ? "Once upon a time" : prompts.front()});
  return words;
}

}  // namespace

std::string commands_of_model(const PreparedModel& model) {
  const std::string& folder = model.config.checkpoint.path;
  std::string text;
  if (!tokenizer_of_run(model.config).empty())
    text += fmt::format("  try it    {}\n", command_line(words_to_try(model)));
  return text + fmt::format("  export    {}\n", command_line({"export", folder, folder + "-exported"}));
}

std::string command_to_train_on(const TrainCommand& command, const RunConfig& config, const Job& job) {
  TrainCommand longer = command;
  std::erase_if(longer.overrides, [](const std::string& given) {
    return given.starts_with("train.steps=") || given.starts_with("train.epochs=");
  });
  longer.overrides.push_back(config.train.epochs ? fmt::format("train.epochs={}", 2 * *config.train.epochs)
                                                 : fmt::format("train.steps={}", 2 * config.train.steps));
  return same_command(longer, job);
}

}  // namespace strata
