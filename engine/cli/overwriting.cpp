#include "engine/cli/overwriting.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "engine/checkpoint/companions.h"
#include "engine/data/file_pattern.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool are_same(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error);
}

bool is_read_from(const fs::path& folder, const fs::path& output) {
  // A run that goes on appends to its own log; no model has such a file.
  if (output.extension() == ".jsonl") return false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (are_same(entry->path(), output)) return true;
  return false;
}

void add(CommandInputs& inputs, std::string_view option, const fs::path& path) {
  if (!path.empty()) inputs.push_back({std::string(option), path});
}

void add_patterns(CommandInputs& inputs, std::string_view option, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> files = expand_pattern(pattern);
    add_data(inputs, option, files.empty() ? expand_pattern(pattern + ".bin") : files);
  }
}

}  // namespace

void refuse_overwriting(const std::vector<CommandOutput>& outputs,
                        const std::function<CommandInputs()>& find_inputs) {
  if (std::ranges::none_of(outputs, is_file, &CommandOutput::path)) return;
  const CommandInputs inputs = find_inputs();
  for (const CommandOutput& output : outputs) {
    if (!is_file(output.path)) continue;
    for (const CommandInput& input : inputs) {
      std::error_code error;
      const bool is_folder = fs::is_directory(input.path, error);
      if (!(is_folder ? is_read_from(input.path, output.path) : are_same(input.path, output.path))) continue;
      throw ConfigError(fmt::format("{}: {} is {} that the command reads ({}); give another file to write to",
                                    output.option, output.path, is_folder ? "in a folder" : "a file",
                                    input.option));
    }
  }
}

std::vector<CommandOutput> outputs_of(const RunModels& run) {
  std::vector<CommandOutput> outputs = {{"report.metrics", run.metrics}};
  for (const NamedRun& model : run.models) outputs.push_back({"report.metrics", model.config.report.metrics});
  return outputs;
}

CommandInputs inputs_of(const RunFileCommand& command, const RunModels& run) {
  CommandInputs inputs;
  add(inputs, "the run file", command.run_file);
  for (const auto& [name, overrides, config] : run.models) {
    add(inputs, "model.path", config.model.path);
    add(inputs, "adapter.path", config.adapter.path);
    add(inputs, "data.tokenizer_path", config.data.tokenizer_path);
    add(inputs, "plan.machine", config.plan.machine);
    for (const DataSource& source : sources_of(config.data))
      add_patterns(inputs, config.data.sources.empty() ? "data.path" : "data.sources", source.path);
    add_patterns(inputs, "data.validation", config.data.validation);
  }
  return inputs;
}

CommandInputs inputs_of(const ModelCommand& command, const fs::path& folder) {
  CommandInputs inputs;
  add(inputs, "the model", folder);
  add(inputs, "the model", folder / kCompanionFolder);
  add(inputs, "--tokenizer", command.tokenizer);
  return inputs;
}

void add_data(CommandInputs& inputs, std::string_view option, const std::vector<std::string>& files) {
  for (const fs::path file : files) {
    add(inputs, option, file);
    for (const char* extension : {".bin", ".idx", ".trained"})
      if (file.extension() == ".bin" || file.extension() == ".idx")
        add(inputs, option, fs::path(file).replace_extension(extension));
  }
}

}  // namespace strata
