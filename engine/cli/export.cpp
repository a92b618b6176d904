// strata export: the newest checkpoint as a Hugging Face folder, or its adapters as one of PEFT.
#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/watchdog.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/checkpoint/peft_folder.h"
#include "engine/cli/commands.h"
#include "engine/cli/say.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"

namespace strata {

int run_export(const ExportCommand& command) {
  Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const RunConfig config = load_run_config(command.run_file, command.overrides);
  watchdog.set_seconds(static_cast<double>(config.train.watchdog));
  if (config.checkpoint.path.empty()) {
    throw ConfigError(command.run_file + " has no checkpoint.path, so there is no checkpoint to export");
  }
  const Model model = load_model(config);
  warn_of_model(config);
  CheckpointStore checkpoints(config.checkpoint.path, config.checkpoint.keep);
  std::optional<OpenCheckpoint> open = checkpoints.open_newest(model);
  if (!open) throw ConfigError(fmt::format("there is no checkpoint in {}", config.checkpoint.path));
  for (const std::string& warning : open->warnings) std::cerr << "warning: " << warning << '\n';
  if (command.merge && !model.adapts())
    throw ConfigError("--merge: the run file has no adapters (adapter.type), so there is nothing to merge");
  const DType dtype = command.dtype == "bf16" ? DType::bf16 : DType::fp32;
  const ReadParameters read = [&](std::size_t unit, FlatRange range, std::span<float> out) {
    open->state.read(unit, weights_in(range.flat), range, out);
  };
  if (model.adapts() && !command.merge) {
    save_peft_folder(command.folder, model, read, config.model.path, dtype);
    std::cout << fmt::format("wrote the adapters to {} (step {}, {})\n", command.folder, open->progress.step,
                             command.dtype);
    return 0;
  }
  HfExport options;
  options.config =
      config.model.path.empty() ? to_hf_config(model.architecture) : read_hf_config(config.model.path);
  options.dtype = dtype;
  save_hf_folder(command.folder, model, model.adapts() ? merge_adapters(model, read) : read, options);
  std::cout << fmt::format("wrote {} (step {}, {})\n", command.folder, open->progress.step, command.dtype);
  return 0;
}

}  // namespace strata
