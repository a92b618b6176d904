#include "engine/tools/cli/overwriting.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/resolved_path.h"
#include "engine/config/run_config.h"
#include "engine/input/data/file_pattern.h"
#include "engine/input/data/token_cache.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/execute/run_record.h"
#include "engine/tools/cli/training.h"
#include "offload/spill_folder.h"

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

/// Equal for all names of one file; empty for what several may write to, such as a pipe or a device.
std::string identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return resolved(path).string();
  return S_ISREG(status.st_mode) ? fmt::format("{}:{}", status.st_dev, status.st_ino) : "";
}

bool is_read_from(const fs::path& folder, const fs::path& output) {
  // A run that goes on appends to its own log; no model has such a file.
  if (output.extension() == ".jsonl") return false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (are_same(entry->path(), output)) return true;
  return false;
}

void refuse_replacing(const CommandOutput& output) {
  std::error_code error;
  if (!output.is_replaced || !fs::exists(output.path, error) || is_file(output.path)) return;
  throw ConfigError(fmt::format("{}: {} is there and no regular file; give another file to write to",
                                output.option, output.path));
}

void refuse_inputs(const CommandOutput& output, const CommandInputs& inputs) {
  for (const CommandInput& input : inputs) {
    std::error_code error;
    const bool is_folder = fs::is_directory(input.path, error);
    if (!(is_folder ? is_read_from(input.path, output.path) : are_same(input.path, output.path))) continue;
    throw ConfigError(fmt::format("{}: {} is {} that the command reads ({}); give another file to write to",
                                  output.option, output.path, is_folder ? "in a folder" : "a file",
                                  input.option));
  }
}

[[noreturn]] void refuse_owned(const CommandOutput& output, const std::string& owner) {
  throw ConfigError(fmt::format("{}: {} is in {}, where nothing else may write; give another place",
                                output.option, output.path, owner));
}

/// A file in a checkpoint may have a second name elsewhere.
bool has_name_in(const fs::path& folder, bool (*owns)(const fs::path&), const fs::path& output) {
  std::error_code error;
  if (!is_file(output) || fs::hard_link_count(output, error) < 2) return false;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (owns(entry->path().lexically_relative(folder)) && are_same(entry->path(), output)) return true;
  }
  return false;
}

void refuse_owned(const CommandOutput& output, const std::vector<OwnedFolder>& folders) {
  const fs::path path = resolved(output.path);
  for (fs::path above = path; above.has_relative_path(); above = above.parent_path()) {
    if (is_of_checkpoint(above.filename().string()) && is_there(above / kManifestName))
      refuse_owned(output, "the checkpoint " + above.string());
  }
  for (const OwnedFolder& folder : folders) {
    const fs::path below = path.lexically_relative(resolved(folder.path));
    const bool is_below = !below.empty() && below != "." && *below.begin() != "..";
    if ((is_below && folder.owns(below)) || has_name_in(folder.path, folder.owns, output.path))
      refuse_owned(output, fmt::format("what {} has for itself in {}", folder.option, folder.path.string()));
  }
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

/// Files that the run writes. A run of several models has some beside those of its models.
std::vector<CommandOutput> outputs_of(const RunModels& run) {
  const RunConfig& first = run.models.front().config;
  std::vector<CommandOutput> outputs = {{"device.product_table", first.device.product_table, true}};
  for (std::int64_t rank = 0; rank < first.ranks() && !first.report.trace_path.empty(); ++rank)
    outputs.push_back({"report.trace.path", trace_of_rank(first.report.trace_path, static_cast<int>(rank))});
  if (run.is_several) {
    outputs.push_back({"report.metrics", run.metrics});
    if (!run.checkpoint_path.empty())
      outputs.push_back({"the run's record", run_record_in(run.checkpoint_path).string()});
  }
  for (const NamedRun& model : run.models) outputs.push_back({"report.metrics", model.config.report.metrics});
  return outputs;
}

bool owns_checkpoints(const fs::path& below) {
  const std::string first = below.begin()->string();
  return is_of_checkpoint(first) || first.starts_with(".strata-");
}

std::vector<OwnedFolder> folders_of(const RunModels& run) {
  std::vector<OwnedFolder> folders;
  const auto add = [&](const char* option, const fs::path& path, bool (*owns)(const fs::path&)) {
    if (!path.empty()) folders.push_back({option, path, owns});
  };
  add("checkpoint.path", run.checkpoint_path, owns_checkpoints);
  for (const auto& [name, overrides, config] : run.models) {
    add("checkpoint.path", config.checkpoint.path, owns_checkpoints);
    add("data.cache", config.data.cache, is_of_token_cache);
  }
  for (const std::string& folder : run.models.front().config.memory.nvme_path)
    add("memory.nvme.path", folder,
        [](const fs::path& below) { return is_spill_name(below.begin()->string()); });
  return folders;
}

}  // namespace

void refuse_overwriting(const CommandFiles& files) {
  std::map<std::string, std::string> options;  // by what they write
  const auto is_given = [](const CommandOutput& output) {
    return !output.path.empty() && output.path != "-";
  };
  CommandInputs inputs;
  if (files.find_inputs && std::ranges::any_of(files.outputs, is_file, &CommandOutput::path))
    inputs = files.find_inputs();
  for (const CommandOutput& output : files.outputs) {
    if (!is_given(output)) continue;
    refuse_replacing(output);
    if (is_file(output.path)) refuse_inputs(output, inputs);
    refuse_owned(output, files.owned);
    const std::string identity = identity_of(output.path);
    const auto [other, is_new] = options.emplace(identity, output.option);
    if (!identity.empty() && !is_new)
      throw ConfigError(fmt::format("{} and {} both write {}; give each a file of its own", other->second,
                                    output.option, output.path));
  }
}

CommandFiles files_of(const RunFileCommand& command, const RunModels& run) {
  return {outputs_of(run), folders_of(run), [&command, &run] { return inputs_of(command, run); }};
}

OwnedFolder checkpoints_in(const fs::path& folder) {
  return {"the run", folder.empty() ? "." : folder, owns_checkpoints};
}

void add_profile(CommandFiles& files, std::string_view option, const std::string& folder) {
  if (folder.empty()) return;
  files.outputs.push_back({std::string(option), folder});
  files.owned.push_back({std::string(option), folder, [](const fs::path&) { return true; }});
}

CommandInputs inputs_of(const ModelCommand& command, const fs::path& folder) {
  CommandInputs inputs;
  add(inputs, "the model", folder);
  add(inputs, "the model", folder / kCompanionFolder);
  add(inputs, "--adapter", command.adapter);
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
