// The models of a run and the machine that trains them, ready to be planned: the same on all ranks.
#pragma once

#include <memory>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/device/device.h"
#include "engine/plan/cost/rates.h"
#include "engine/run/assembly/prepared_model.h"
#include "engine/run/tune/host_budget.h"

namespace strata {

/// The device that trains the models, and the run's share of the host's memory.
struct PreparedMachine {
  std::unique_ptr<Device> device;
  std::vector<ScratchPart> scratch;  ///< of the model that needs most
  HostShare host;
};

struct PreparedRun {
  std::vector<PreparedModel> models;
  PreparedMachine machine;
  MachineRates rates;  ///< to plan by: the lowest of all ranks
};

/// Loads the models of a run, opens their data and the device, and sets the budgets of all models to the
/// least that any rank has. Every rank calls this. `fresh`: the run does not resume. REQUIRES: each config
/// has a precision and a layout. Throws ConfigError on every rank if a file, a budget or the device does not
/// do, or if ranks were given different runs.
PreparedRun prepare_run(const std::vector<RunConfig>& agreed, bool fresh, const RunRank& rank,
                        const RunNotes& notes);

}  // namespace strata
