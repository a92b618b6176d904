// strata generate: what a model says behind prompts.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/watchdog.h"
#include "engine/run/generate/generator.h"
#include "engine/run/generate/prompts.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/model_command.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"

namespace strata {
namespace {

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::max_tokens:
      return "max_tokens";
    case StopReason::longest_sequence:
      return "longest_sequence";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

std::vector<std::string> prompts_of(const GenerateCommand& command) {
  std::vector<std::string> prompts = command.prompts;
  if (!command.prompt_file.empty()) {
    if (!is_there(command.prompt_file))
      throw ConfigError(fmt::format("--prompt-file: {} is not there", command.prompt_file));
    if (std::filesystem::is_directory(command.prompt_file))
      throw ConfigError(
          fmt::format("--prompt-file: {} is a folder; name a file of text", command.prompt_file));
    prompts.push_back(read_file(command.prompt_file));
  }
  if (prompts.empty()) throw ConfigError("there is no prompt: give --prompt TEXT or --prompt-file FILE");
  return prompts;
}

/// The first prompt's text as it comes, the others' behind it. Nothing is said if `is_quiet`.
class Speech {
 public:
  Speech(const PromptText& text, std::size_t prompts, bool is_quiet)
      : streams_(prompts, TextStream(text)), said_(prompts), is_quiet_(is_quiet) {
    if (prompts > 1) show("=== 1\n");
  }

  void add(std::size_t prompt, std::int32_t token) { say_of(prompt, streams_[prompt].add(token)); }
  void end() {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      say_of(i, streams_[i].end());
      if (i > 0) show(fmt::format("=== {}\n{}", i + 1, said_[i]));
      show("\n");
    }
  }
  const std::string& said(std::size_t prompt) const { return said_[prompt]; }

 private:
  void say_of(std::size_t prompt, const std::string& text) {
    said_[prompt] += text;
    if (prompt == 0) show(text);
  }
  void show(const std::string& text) const {
    if (!is_quiet_) std::cout << text << std::flush;
  }

  std::vector<TextStream> streams_;
  std::vector<std::string> said_;
  bool is_quiet_;
};

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

int run_generate(const GenerateCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const std::vector<std::string> prompts = prompts_of(command);
  OpenedModel opened = open_model(command);
  refuse_overwriting({{{"--json", command.json}}, {}, [&] {
                        CommandInputs inputs = inputs_of(command, opened.source.folder);
                        inputs.push_back({"--prompt-file", command.prompt_file});
                        return inputs;
                      }});
  check_json_path("--json", command.json);
  const std::string tokenizer = tokenizer_of(command, opened.source);
  const PromptText text = PromptText::read(tokenizer);
  const std::vector<TokenIds> encoded = encode_prompts(
      prompts, text, tokenizer, {command.chat, begin_token_of(command, opened.source), "--chat"});
  GenerationOptions options{
      .precision = opened.precision.storage,
      .max_tokens = command.max_tokens,
      .stops = ends_of_texts(text, tokenizer, opened.source.is_checkpoint ? "" : opened.source.folder),
      .sampling = {.temperature = command.temperature.value_or(0),
                   .top_p = command.top_p.value_or(1),
                   .top_k = command.top_k.value_or(0),
                   .seed = command.seed},
      .budget = opened.budget};
  Generator generator(*opened.device, *opened.source.model, opened.source.read, encoded, options);
  Speech speech(text, prompts.size(), command.json == "-");
  const std::vector<Continuation> continuations =
      generator.run([&](std::size_t prompt, std::int32_t token) { speech.add(prompt, token); });
  speech.end();

  const GenerationFigures& figures = generator.figures();
  const double prompt_rate = per_second(figures.prompt_tokens, figures.prompt_seconds);
  const double token_rate = per_second(figures.later_tokens, figures.token_seconds);
  std::cerr << fmt::format(
      "{}, {}: {} prompt tokens in {:.2f} s ({:.1f}/s), {} tokens behind them in {:.2f} s ({:.1f} tokens/s); "
      "{}\n",
      opened.source.name, strata::name_of(opened.precision), figures.prompt_tokens, figures.prompt_seconds,
      prompt_rate, figures.later_tokens, figures.token_seconds, token_rate,
      memory_line(generator.parameters(), generator.device_bytes(), generator.scratch_bytes()));
  nlohmann::json report = {
      {"model", opened.source.name},
      {"precision", strata::name_of(opened.precision)},
      {"prompt_tokens", figures.prompt_tokens},
      {"prompt_seconds", figures.prompt_seconds},
      {"new_tokens", figures.new_tokens},
      {"token_seconds", figures.token_seconds},
      {"tokens_per_second", token_rate},
      {"memory", memory_json(generator.parameters(), generator.device_bytes(), generator.scratch_bytes())}};
  for (std::size_t i = 0; i < continuations.size(); ++i)
    report["continuations"].push_back({{"prompt", prompts[i]},
                                       {"prompt_ids", encoded[i]},
                                       {"ids", continuations[i].ids},
                                       {"text", speech.said(i)},
                                       {"stopped_by", name_of(continuations[i].reason)}});
  write_json(command.json, report);
  return 0;
}

}  // namespace strata
