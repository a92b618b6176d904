#include "engine/tools/cli/model_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/config/choices.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "engine/tools/cli/next_commands.h"
#include "engine/tools/cli/own_name.h"

namespace strata {
namespace {

Bytes budget_of(const char* option, const std::string& text) {
  const std::optional<Bytes> bytes = parse_bytes(text);
  if (bytes && *bytes >= 0) return *bytes;
  throw ConfigError(
      fmt::format("{}: '{}' is no size; expected bytes as in 8GiB, or unlimited", option, text));
}

/// The model beneath the folder of adapters that is the command's model.
std::filesystem::path base_of(const ModelCommand& command) {
  const std::string name = base_model_name(command.model);
  for (const std::filesystem::path& base :
       {std::filesystem::path(name), command.model / std::filesystem::path(name)})
    if (!name.empty() && is_there(base / "config.json")) return base;
  const auto line = [&](const std::string& base) {
    return command_line({command.name, base, "--adapter", command.model});
  };
  const std::string what = command.model + " has adapters alone, and ";
  if (name.empty())
    throw ConfigError(
        fmt::format("{}does not say to which model they belong; name its folder: {}", what, line("FOLDER")));
  const bool is_on_hub = std::ranges::count(name, '/') == 1 && name.find_first_of("/.") != 0;
  const std::string download = "models/" + name.substr(name.find('/') + 1);
  throw ConfigError(fmt::format("{}the model that they belong to is not there: {}; {}", what, name,
                                is_on_hub
                                    ? fmt::format("get it with hf download {} --local-dir {}, then: {}",
                                                  shell_word(name), shell_word(download), line(download))
                                    : fmt::format("name the folder where it is: {}", line("FOLDER"))));
}

ModelSource source_of(const ModelCommand& command, const ModelUse& use) {
  if (!command.adapter.empty()) return open_adapted_model(command.model, command.adapter, use);
  if (is_there(std::filesystem::path(command.model) / "adapter_config.json"))
    return open_adapted_model(base_of(command), command.model, use);
  refuse_several_models(command.model, {command.name, ""});
  return open_model(
      command.model, use,
      "name the folder where it is: " + command_line({command.name, "FOLDER", "--adapter", command.model}));
}

}  // namespace

OpenedModel open_model(const ModelCommand& command) {
  const UseOptions options{.device = command.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu,
                           .threads = command.threads,
                           .precision = precision_named(command.precision),  // none is called auto
                           .device_memory = budget_of("--device-memory", command.device_memory),
                           .host_memory = budget_of("--host-memory", command.host_memory)};
  return open_model(options, [&](ModelUse use) {
    use.averaged = command.ema;
    ModelSource source = source_of(command, use);
    for (const std::string& warning : source.warnings) std::cerr << "warning: " << warning << '\n';
    return source;
  });
}

std::string tokenizer_of(const ModelCommand& command, const ModelSource& source) {
  if (!command.tokenizer.empty()) return command.tokenizer;
  return tokenizer_of(source,
                      "name a model's folder with --tokenizer, or 'bytes' if it was trained on bytes");
}

BeginToken begin_token_named(const std::string& word) {
  const auto& words = Words<BeginToken>::list;
  return static_cast<BeginToken>(std::ranges::find(words, word) - words.begin());
}

BeginToken begin_token_of(const ModelCommand& command, const ModelSource& source) {
  return command.begin_token.empty() ? source.begin_token : begin_token_named(command.begin_token);
}

std::string memory_line(const UnitParameters& parameters, Bytes device_bytes, Bytes scratch_bytes) {
  std::string line =
      fmt::format("{} on the device, {} of it parameters, and {} for kernels", format_bytes(device_bytes),
                  format_bytes(parameters.device_bytes()), format_bytes(scratch_bytes));
  if (parameters.streamed_units() > 0) {
    line += fmt::format("; {} blocks streamed from {}", parameters.streamed_units(),
                        parameters.reads_files()
                            ? std::string("the model's files")
                            : fmt::format("{} on the host", format_bytes(parameters.host_bytes())));
  }
  return line;
}

nlohmann::json memory_json(const UnitParameters& parameters, Bytes device_bytes, Bytes scratch_bytes) {
  return {{"device_bytes", device_bytes},
          {"parameter_bytes", parameters.device_bytes()},
          {"host_bytes", parameters.host_bytes()},
          {"scratch_bytes", scratch_bytes},
          {"streamed_units", parameters.streamed_units()},
          {"reads_files", parameters.reads_files()}};
}

}  // namespace strata
