// The commands that a user is likely to want after a run, as they must be typed.
#pragma once

#include <string>

#include "engine/cli/commands.h"
#include "engine/cli/training.h"

namespace strata {

/// What can be done with the model in the run's checkpoints: talk to it or continue a text, and export it. A
/// line each, with its end.
std::string commands_of_model(const PreparedModel& model);

/// The command that trains a finished run for as many steps, or epochs, again.
std::string command_to_train_on(const TrainCommand& command, const RunConfig& config, const Job& job);

}  // namespace strata
