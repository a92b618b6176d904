// Several ranks make sure that they are one run before anything runs: they agree on what planning reads of
// their hosts, and compare all else that a step depends on. Every rank calls these in the same order; a null
// world is a run of one rank.
#pragma once

#include "collectives/communicator.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/place/plan.h"
#include "engine/run/assembly/prepared_model.h"

namespace strata {

struct RunConfig;

/// Makes `config`'s budgets the smallest of all ranks; the rates to plan by are so, too. Throws ConfigError
/// if a rank's profile cannot be read.
MachineRates agree_on_hosts(RunConfig& config, Communicator* world);

/// Throws ConfigError on every rank if run file, model, data or --fresh differ, naming what, and where.
void require_one_run(const PreparedModel& model, bool fresh, Communicator* world);

/// Throws ConfigError on every rank if plans differ.
void require_one_plan(const std::vector<Plan>& plans, Communicator* world);

}  // namespace strata
