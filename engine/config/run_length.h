// How long a run is: train.steps, or train.epochs once the data are read; and the warm-up that fits.
#pragma once

#include <string>

namespace strata {

struct RunConfig;

/// Sets train.steps to what train.epochs asks for, if that key is given, and then cuts the warm-up.
/// `sequences` are those of one epoch. Throws ConfigError if the epochs are more steps than a run may have.
void set_steps_of_epochs(RunConfig& config, std::int64_t sequences);

/// A warm-up that is longer than the run becomes a tenth of the run's steps.
void cut_warmup(RunConfig& config);

/// A sentence on the warm-up that was cut; empty: none was.
std::string cut_warmup_text(const RunConfig& config);

}  // namespace strata
