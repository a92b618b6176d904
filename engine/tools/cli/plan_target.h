// What strata plan and strata explain are asked about: a run, and the machine that it is planned for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/run_models.h"
#include "engine/plan/cost/rates.h"
#include "engine/tools/cli/commands.h"

namespace strata {

struct PlanTarget {
  RunModels run;
  std::int64_t ranks = 1;
  /// "machine  h200: …": what --on has put in place of the run file's keys; empty without it.
  std::string machine_line;
  std::string machine_name;  ///< of --machine or plan.machine, as it was given; empty with --on

  /// Warns on standard error if a machine of another kind than the run's is planned by. Throws ConfigError if
  /// its profile cannot be read.
  void warn() const;
  /// What stands under a plan, each a line: rates_are(), and data_line().
  std::string notes(const MachineRates& by) const;
  /// "nominal, …" or "measured …": what the rates are `by` which times follow.
  std::string rates_are(const MachineRates& by) const;
  /// "data     …" if some are not there; else empty.
  std::string data_line() const;
};

/// Loads the run, with `more` settings behind those of the command. Throws ConfigError.
PlanTarget plan_target(const PlanningCommand& command, const std::vector<std::string>& more = {});

}  // namespace strata
