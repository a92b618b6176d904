// strata export: the newest checkpoint as a Hugging Face folder.
#include <fmt/format.h>

#include <iostream>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf_folder.h"
#include "engine/cli/commands.h"
#include "engine/cli/setup.h"
#include "engine/config/load.h"

namespace strata {

int run_export(const ExportCommand& command) {
  const RunConfig config = load_run_config(command.run_file, command.overrides);
  if (config.checkpoint.path.empty()) {
    throw ConfigError(command.run_file + " has no checkpoint.path, so there is no checkpoint to export");
  }
  const Model model = load_model(config);
  warn_of_model(config);
  std::vector<std::vector<float>> parameters;
  for (const Unit& unit : model.units) parameters.emplace_back(static_cast<std::size_t>(unit.elements));
  CheckpointStore checkpoints(config.checkpoint.path, config.checkpoint.keep);
  const auto loaded = checkpoints.load_newest(
      model, access_in_memory([&](std::size_t unit, StateKind kind) {
        return kind == StateKind::master ? std::span(parameters[unit]) : std::span<float>();  // no moments
      }));
  if (!loaded) throw ConfigError(fmt::format("there is no checkpoint in {}", config.checkpoint.path));
  for (const std::string& warning : loaded->warnings) std::cerr << "warning: " << warning << '\n';
  HfExport options;
  options.config =
      config.model.path.empty() ? to_hf_config(model.architecture) : read_hf_config(config.model.path);
  options.dtype = command.dtype == "bf16" ? DType::bf16 : DType::fp32;
  save_hf_folder(
      command.folder, model, [&](std::size_t unit) { return std::span<const float>(parameters[unit]); },
      options);
  std::cout << fmt::format("wrote {} (step {}, {})\n", command.folder, loaded->progress.step, command.dtype);
  return 0;
}

}  // namespace strata
