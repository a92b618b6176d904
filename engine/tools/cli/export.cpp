// strata export: a checkpoint as a Hugging Face folder, or its adapters as one of PEFT. A run file only says
// where its checkpoints are, and which model is beneath adapters.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/resolved_path.h"
#include "base/watchdog.h"
#include "engine/config/run_config.h"
#include "engine/config/run_models.h"
#include "engine/run/assembly/default_folder.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/peft_folder.h"
#include "engine/run/generate/saved_model.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/next_commands.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/own_name.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/setup.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// What the command is about, however it names it.
struct Exported {
  fs::path checkpoints;          ///< one, or a folder of them
  fs::path base = {};            ///< of adapters; empty: as the checkpoint says
  CompanionSources beside = {};  ///< of an older checkpoint, which has no such files itself
};

void say(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

CommandOutput output_of(const ExportCommand& command) {
  return {"the folder to write", command.folder};
}

Exported named_by_folder(const ExportCommand& command) {
  fs::path path = command.run_file;
  if (!path.has_filename()) path = path.parent_path();  // as a shell completes it
  if (!command.overrides.empty())
    throw ConfigError(fmt::format("--set {}: belongs to a run file, and {} is a folder",
                                  command.overrides.front(), path.string()));
  refuse_several_models(path, {"export", "", command.folder});
  refuse_overwriting(
      {{output_of(command)}, {checkpoints_in(is_checkpoint(path) ? path.parent_path() : path)}});
  return {.checkpoints = path};
}

[[noreturn]] void ask_for_one(const RunModels& run, const ExportCommand& command) {
  const std::string recorded = run.checkpoint_path.empty() ? "" : best_model_in(run.checkpoint_path);
  const auto found = std::ranges::find(run.models, recorded, &NamedRun::name);
  const bool is_known = found != run.models.end();
  const std::string& folder = (is_known ? *found : run.models.front()).config.checkpoint.path;
  std::vector<std::string> names;
  names.reserve(run.models.size());
  for (const NamedRun& model : run.models) names.push_back(model.name);
  ask_for_one_model(command.run_file, names, is_known ? recorded : "",
                    folder.empty() ? "CHECKPOINTS" : folder, {"export", "", command.folder});
}

Exported named_by_run_file(const ExportCommand& command, Watchdog& watchdog) {
  const RunModels run = load_run_models(command.run_file, command.overrides);
  if (run.models.size() > 1) ask_for_one(run, command);
  const RunConfig& config = run.models.front().config;
  watchdog.set_seconds(static_cast<double>(config.train.watchdog));
  CommandFiles files = files_of(command, run);
  files.outputs.push_back(output_of(command));
  refuse_overwriting(files);
  if (config.checkpoint.path.empty())
    throw ConfigError(command.run_file + " says checkpoint: none, so there is no checkpoint to export");
  refuse_other_run(command.run_file, run,
                   "name the folder of the run that is to be exported with --set checkpoint.path=FOLDER");
  const bool has_base = !config.model.path.empty() && is_there(config.model.path);
  return {.checkpoints = config.checkpoint.path,
          .base = has_base ? config.model.path : "",
          .beside = companion_sources(config)};
}

SavedModel open(const ExportCommand& command, const Exported& exported) {
  BaseOptions base{.folder = command.base.empty() ? exported.base : fs::path(command.base),
                   .is_read = command.merge || !command.base.empty(),
                   .advice = "put it there, or name its folder with --base FOLDER"};
  SavedModel saved = open_saved_model(exported.checkpoints, {.averaged = command.ema}, base);
  say(saved.warnings);
  if (!command.base.empty() && !saved.manifest.base)
    throw ConfigError(
        fmt::format("--base: checkpoint {} has the whole model; leave --base out", saved.folder.string()));
  if (command.merge && !saved.model->adapts())
    throw ConfigError(fmt::format("--merge: checkpoint {} has no adapters, so there is nothing to merge",
                                  saved.folder.string()));
  return saved;
}

/// The model beneath adapters, from the root on, as checkpoints name it. Empty: it had random weights.
std::string base_of(const ExportCommand& command, const Exported& exported, const Manifest& manifest) {
  const fs::path base = command.base.empty() ? exported.base : fs::path(command.base);
  if (!base.empty()) return resolved(base).string();
  return manifest.base ? manifest.base->path : "";
}

Companions companions_of(const SavedModel& saved, const Exported& exported) {
  std::vector<std::string> warnings;
  Companions companions = saved.manifest.companions.empty()
                              ? find_companions(exported.beside, warnings)
                              : stored_companions(saved.folder, saved.manifest, warnings);
  say(warnings);
  return companions;
}

nlohmann::json config_of(const SavedModel& saved, const Companions& companions) {
  if (const Companion* stored = find(companions, "config.json"))
    return parse_json(stored->content, stored->name);
  return to_hf_config(saved.manifest.architecture);
}

/// What was put beside the weights.
std::string described(const Exported& exported, const Companions& companions) {
  if (have_tokenizer(companions)) return ", with its tokenizer";
  const std::string source = exported.beside.tokenizer.string();
  if (source.empty()) return "";
  return fmt::format(", without a tokenizer: {} had none that could be kept", source);
}

}  // namespace

int run_export(const ExportCommand& command) {
  Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const Exported exported =
      is_folder(command.run_file) ? named_by_folder(command) : named_by_run_file(command, watchdog);
  const SavedModel saved = open(command, exported);
  HfExport options;
  options.dtype = command.dtype == "bf16" ? DType::bf16 : DType::fp32;
  options.companions = companions_of(saved, exported);
  const bool is_adapter = saved.model->adapts() && !command.merge;
  if (is_adapter) {
    save_peft_folder(command.folder, *saved.model, saved.read, base_of(command, exported, saved.manifest),
                     options);
  } else {
    options.config = config_of(saved, options.companions);
    save_hf_folder(command.folder, *saved.model,
                   saved.model->adapts() ? merge_adapters(*saved.model, saved.read) : saved.read, options);
  }
  std::cout << fmt::format("wrote {}{} (step {}, {}){}\n", is_adapter ? "the adapters to " : "",
                           command.folder, saved.manifest.progress.counters.step, command.dtype,
                           described(exported, options.companions));
  return 0;
}

}  // namespace strata
