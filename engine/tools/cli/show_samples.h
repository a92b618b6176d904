// strata tokenize --show: the first samples of a run as the model reads them, and what of them is trained on.
#pragma once

#include <cstdint>

#include "engine/tools/cli/commands.h"

namespace strata {

/// Prints the run's first `count` samples: their text, "+" before what is trained on, "-" before the rest.
/// Reads and tokenizes the data as the run does. Throws ConfigError, IoError.
int show_samples(const RunFileCommand& command, std::int64_t count);

}  // namespace strata
