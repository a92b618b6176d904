// Several models in one run, and what each leaves if it runs alone.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/run_config.h"
#include "tests/execute/support.h"

namespace strata::test {

struct JointOutcome {
  std::deque<Plan> plans;  ///< one after another, of the rank's stage set
  std::vector<TrainResult> results;
  Measurements measured;
  Traffic planned;
};

struct JointOptions {
  std::string order = {};  ///< of turns; empty: the fastest
  const std::atomic<bool>* stop = nullptr;
  std::vector<TrainListener*> listeners = {};  ///< by model, or none
  SeveralModels several = {};                  ///< but for plans
  FileSystem* files = &FileSystem::real();     ///< of checkpoints
  Communicator* world = nullptr;
};

/// Trains models, whose budgets, lanes and device are the first one's.
JointOutcome run_together(const std::vector<RunConfig>& configs, const JointOptions& options = {});

/// The same on several ranks, which are threads, each model in its mesh over all of them: what each leaves.
std::vector<JointOutcome> run_together_on(
    int ranks, std::vector<RunConfig> configs,
    const std::function<JointOptions(int rank)>& options = [](int) { return JointOptions{}; });

/// Why the runs cannot be planned together; empty if they can.
std::string joint_refusal(const std::vector<RunConfig>& configs);

/// What a run tells: its steps' losses, then those of its validations.
std::vector<double> losses_of(const TrainResult& result);

/// The plans told peaks and bytes of all links.
void expect_the_plans_were_exact(const JointOutcome& outcome);

/// The model's state and losses are those of its run alone.
void expect_solo_bits(const RunConfig& config, const TrainResult& result);

/// Those of each model are, and the plans were exact.
void expect_solo_bits(const std::vector<RunConfig>& configs, const JointOutcome& outcome);

}  // namespace strata::test
