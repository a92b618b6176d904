// The folder in which a run saves by default has the name of its run file, which another run file may have,
// too.
#pragma once

#include <string>

#include "engine/config/run_models.h"

namespace strata {

/// Throws ConfigError if the run's folder is the one that it has by default, and holds what a run of another
/// run file has saved: it names both files, and ends with `advice`. Only reads.
void refuse_other_run(const std::string& run_file, const RunModels& run, const std::string& advice);

}  // namespace strata
