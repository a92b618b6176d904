#include "engine/cli/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/checkpoint/peft_folder.h"
#include "engine/cli/own_name.h"
#include "engine/config/value.h"
#include "engine/model/dropout.h"
#include "engine/model/split_context.h"
#include "engine/model/split_model.h"
#include "engine/plan/search/machine_document.h"
#include "offload/spill_folder.h"

namespace strata {
namespace {

/// A model's config.json, and what errors call it.
struct ModelConfig {
  nlohmann::json keys;
  std::string where;
};

ModelConfig model_config(const RunConfig& config) {
  if (!config.model.path.empty())
    return {read_hf_config(config.model.path), config.model.path + "/config.json"};
  ModelConfig model{config.model.config, "model.config"};
  const std::string& type = config.model.architecture;
  if (const auto found = model.keys.find("model_type"); found != model.keys.end() && *found != type) {
    throw ConfigError(
        fmt::format("model.config: model_type is {}, and model.architecture is {}; take the former out",
                    found->dump(), type));
  }
  model.keys["model_type"] = type;
  // A run file asks for dropout only if it says so, whatever HF's default is.
  if (type == "gpt2") {
    for (const std::string_view key : dropout_keys(type).keys) model.keys.emplace(key, 0.0);
  }
  return model;
}

/// Null where the profile does not say. What is wrong with a profile besides is said where its rates are
/// read.
nlohmann::json profiled_value(const std::string& path, const char* key) {
  if (path.empty() || !is_there(path)) return {};
  const nlohmann::json profile = machine_document(read_file(path), path);
  return profile.is_object() ? profile.value(key, nlohmann::json()) : nlohmann::json();
}

}  // namespace

std::string RunFileCommand::line(std::string_view name) const {
  std::vector<std::string> words = {std::string(name), run_file};
  for (const std::string& override : overrides) words.insert(words.end(), {"--set", override});
  return command_line(words);
}

void warn_of_model(const RunConfig& config) {
  const ModelConfig model = model_config(config);
  for (const std::string& warning :
       {dropout_warning(model.keys, model.where, config.train.dropout), dropout_warning(config.adapter),
        unread_weights_warning(config.model.path)})
    if (!warning.empty()) std::cerr << "warning: " << warning << '\n';
  const std::int64_t positions = parse_architecture(model.keys, model.where).max_positions;
  if (config.data.sequence_length > positions)
    std::cerr << fmt::format(
        "warning: data.sequence_length: {} tokens are more than the {} positions that the model is made for "
        "(max_position_embeddings of {})\n",
        config.data.sequence_length, positions, model.where);
}

Model load_model(const RunConfig& config) {
  const ModelConfig model = model_config(config);
  Architecture architecture = parse_architecture(model.keys, model.where);
  if (config.train.dropout) apply_dropout(architecture, model.keys, model.where);
  if (architecture.family == Family::gpt2 && config.data.sequence_length > architecture.max_positions) {
    throw ConfigError(
        fmt::format("data.sequence_length: {} is more than the {} positions that the model has learned",
                    config.data.sequence_length, architecture.max_positions));
  }
  Model loaded = build_run_model(architecture, config);
  loaded.max_chunk_bytes = max_chunk_bytes(config.device.kind);
  return loaded;
}

Model load_model_of_rank(const RunConfig& config, std::int64_t rank) {
  const std::int64_t tensor = config.parallel.tensor;
  Model model = load_model(config);
  try {
    if (tensor > 1) model = split_model(model, tensor_split(tensor, rank % tensor, config.parallel.sequence));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("parallel.tensor: {}", error.what()));
  }
  return split_context(std::move(model), context_part(config, rank));
}

CompanionSources companion_sources(const RunConfig& config) {
  const std::string& tokenizer = config.data.tokenizer_path;
  return {.model = config.model.path, .tokenizer = tokenizer.empty() ? config.model.path : tokenizer};
}

HostResources this_host(const RunConfig& config) {
  const std::vector<std::string>& folders = config.memory.nvme_path;
  return {.memory = usable_memory(), .drives = folders.empty() ? kUnlimited : free_for_spilling(folders)};
}

std::optional<Bytes> profiled_memory(const std::string& path, const char* key) {
  const nlohmann::json memory = profiled_value(path, key);
  if (!memory.is_number_integer() || memory.get<Bytes>() < 1) return std::nullopt;
  return memory.get<Bytes>();
}

std::optional<bool> profiled_bf16(const std::string& path) {
  const nlohmann::json bf16 = profiled_value(path, kBf16Key);
  return bf16.is_boolean() ? std::optional(bf16.get<bool>()) : std::nullopt;
}

bool profiled_as_measured(const std::string& path) {
  const nlohmann::json measured = profiled_value(path, kMeasuredKey);
  return measured.is_boolean() && measured.get<bool>();
}

DocumentOptions document_options(const DocumentsCommand& command) {
  std::map<std::string, std::string> names;
  for (const std::string& given : command.fields) {
    const std::size_t equals = std::min(given.find('='), given.size());
    const std::string field = given.substr(0, equals), key = given.substr(std::min(equals + 1, given.size()));
    if (key.empty() || !std::ranges::count(kRecordFields, field))
      throw ConfigError(fmt::format("--field: '{}' is not FIELD=KEY with one of the fields {}", given,
                                    fmt::join(kRecordFields, ", ")));
    names[field] = key;
  }
  return {.format = value::find_word<DataFormat>(command.format).value_or(DataFormat::automatic),
          .fields = RecordFields(names)};
}

HostResources planned_host(const RunConfig& config) {
  HostResources host = this_host(config);
  host.memory = profiled_memory(config.plan.machine).value_or(host.memory);
  if (!config.memory.nvme_path.empty() && host.drives == kUnlimited)
    host.drives = profiled_memory(config.plan.machine, kDrivesKey).value_or(kUnlimited);
  if (config.device.kind != DeviceKind::cpu)
    host.device = profiled_memory(config.plan.machine, kDeviceMemoryKey).value_or(host.device);
  return host;
}

void check_json_path(std::string_view option, const std::string& path) {
  if (path.empty() || path == "-") return;
  const WatchedWait wait([&path] { return "opening " + path; });
  const std::ofstream file(path, std::ios::app);
  if (!file) throw ConfigError(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
}

void write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << json_text(json, 2) << '\n';
    return;
  }
  const WatchedWait wait([&path] { return "writing " + path; });
  std::ofstream file(path);
  file << json_text(json, 2) << '\n';
  file.close();
  if (!file) throw IoError(fmt::format("cannot write the report to {}: {}", path, std::strerror(errno)));
  std::error_code cannot_be_asked;
  if (!std::filesystem::is_regular_file(path, cannot_be_asked)) return;
  const FileDescriptor written(FileSystem::real().open(path));
  FileSystem::real().sync(written.get(), path);
}

}  // namespace strata
