// Commands that lead on from trained models, as they must be typed. Plain functions that look into folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/training.h"

namespace strata {

struct RunConfig;

/// What can be done with the model in the run's checkpoints: talk to it or continue a text, and export it to
/// the folder `out`. A line each, with its end.
std::string commands_of_model(const PreparedModel& model, const std::string& out);

/// The command that trains a finished run for as many steps, or epochs, again. `trained` are the steps that
/// its checkpoint has, which may be more than `config` asks for.
std::string command_to_train_on(const TrainCommand& command, const RunConfig& config, std::int64_t trained,
                                const Job& job);

/// Folders in `folder` that have checkpoints: the models of a run of several, in the order of their names.
std::vector<std::string> models_in(const std::filesystem::path& folder);

/// Name of the best model, as the record in the folder of a run says; empty if there is none that says it.
std::string best_model_in(const std::filesystem::path& folder);

/// Throws ConfigError if `folder` has no model itself but several models in it: it names them and the command
/// for the best, which has that model's folder where `words` has an empty word. Only reads.
void refuse_several_models(const std::filesystem::path& folder, const std::vector<std::string>& words);

/// Throws ConfigError: `what` has the models of these names, and one of them is asked for by `words`, as
/// above; `folder` is that of the best, or of the first if `best` is empty.
[[noreturn]] void ask_for_one_model(const std::string& what, const std::vector<std::string>& names,
                                    const std::string& best, const std::string& folder,
                                    std::vector<std::string> words);

}  // namespace strata
