// strata export: the newest checkpoint as a Hugging Face folder, or its adapters as one of PEFT.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/watchdog.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/checkpoint/initial_weights.h"
#include "engine/checkpoint/peft_folder.h"
#include "engine/cli/commands.h"
#include "engine/cli/default_folder.h"
#include "engine/cli/overwriting.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"

namespace strata {
namespace {

void say(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "warning: " << warning << '\n';
}

/// A checkpoint may have left the machine where its model's folder was: it has that folder's config.json.
void find_model(RunConfig& config) {
  if (config.model.path.empty() || is_there(config.model.path)) return;
  for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), config.checkpoint.path)) {
    const std::filesystem::path folder = entry.folder / kCompanionFolder;
    if (!entry.manifest || !is_there(folder / "config.json")) continue;
    std::cerr << fmt::format("model.path {} is not there: using {}\n", config.model.path, folder.string());
    config.model.path = folder.string();
    return;
  }
}

/// Whether adapters' checkpoints are there that do not have the model, too.
bool name_their_models(const std::filesystem::path& path) {
  return std::ranges::any_of(list_checkpoints(FileSystem::real(), path), [](const CheckpointEntry& entry) {
    return entry.manifest && entry.manifest->base;
  });
}

/// The checkpoint's own; an older one may have none.
Companions companions_of(const RunConfig& config, const OpenCheckpoint& checkpoint) {
  std::vector<std::string> warnings;
  Companions companions = checkpoint.manifest.companions.empty()
                              ? find_companions(companion_sources(config), warnings)
                              : stored_companions(checkpoint.folder, checkpoint.manifest, warnings);
  say(warnings);
  return companions;
}

nlohmann::json config_of(const RunConfig& config, const Model& model, const Companions& companions) {
  if (const Companion* stored = find(companions, "config.json"))
    return parse_json(stored->content, stored->name);
  return config.model.path.empty() ? to_hf_config(model.architecture) : read_hf_config(config.model.path);
}

/// What was put beside the weights.
std::string described(const RunConfig& config, const Companions& companions) {
  if (have_tokenizer(companions)) return ", with its tokenizer";
  const std::string source = companion_sources(config).tokenizer.string();
  if (source.empty()) return "";
  return fmt::format(", without a tokenizer: {} had none that could be kept", source);
}

void refuse_overwriting_run(const ExportCommand& command) {
  const RunModels run = load_run_models(command.run_file, command.overrides);
  CommandFiles files = files_of(command, run);
  files.outputs.push_back({"the folder to write", command.folder});
  refuse_overwriting(files);
}

}  // namespace

int run_export(const ExportCommand& command) {
  Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  RunConfig config = load_run_config(command.run_file, command.overrides);
  watchdog.set_seconds(static_cast<double>(config.train.watchdog));
  refuse_overwriting_run(command);
  if (config.checkpoint.path.empty()) {
    throw ConfigError(command.run_file + " says checkpoint: none, so there is no checkpoint to export");
  }
  RunModels run;
  run.models.push_back({"", {}, config});
  run.checkpoint_path = config.checkpoint.path;
  refuse_other_run(command, run,
                   "name the folder of the run that is to be exported with --set checkpoint.path=FOLDER");
  const std::string base = config.model.path;
  const bool needs_base = command.merge && name_their_models(config.checkpoint.path);
  if (!needs_base) find_model(config);  // which has no weights
  const Model model = load_model(config);
  warn_of_model(config);
  if (command.merge && !model.adapts())
    throw ConfigError("--merge: the run file has no adapters (adapter.type), so there is nothing to merge");
  CheckpointStore checkpoints(config.checkpoint.path, config.checkpoint.keep);
  if (needs_base) {
    BaseWeights weights = base_weights(config, model);
    weights.as_trained = true;
    checkpoints.set_base(std::move(weights));
  }
  std::optional<OpenCheckpoint> open = checkpoints.open_newest(model);
  if (!open) throw ConfigError(fmt::format("there is no checkpoint in {}", config.checkpoint.path));
  say(open->warnings);
  HfExport options;
  options.dtype = command.dtype == "bf16" ? DType::bf16 : DType::fp32;
  options.companions = companions_of(config, *open);
  const ReadParameters read = [&](std::size_t unit, FlatRange range, std::span<float> out) {
    open->state.read(unit, weights_in(range.flat), range, out);
  };
  if (model.adapts() && !command.merge) {
    save_peft_folder(command.folder, model, read, base, options);
  } else {
    options.config = config_of(config, model, options.companions);
    save_hf_folder(command.folder, model, model.adapts() ? merge_adapters(model, read) : read, options);
  }
  std::cout << fmt::format("wrote {}{} (step {}, {}){}\n",
                           model.adapts() && !command.merge ? "the adapters to " : "", command.folder,
                           open->progress.step, command.dtype, described(config, options.companions));
  return 0;
}

}  // namespace strata
