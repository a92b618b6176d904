#include "engine/tools/cli/profiling.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/bound/certificate.h"
#include "engine/plan/planner/needs.h"
#include "engine/plan/planner/planned_run.h"
#include "engine/plan/planner/run_certificate.h"
#include "engine/run/execute/recorded_step.h"
#include "engine/tools/profile/profile_folder.h"
#include "engine/tools/profile/trace.h"

namespace strata {

std::vector<StepProfile> profiles_of(const Planner& planner, const std::vector<Plan>& plans,
                                     const MachineRates& rates) {
  std::vector<StepProfile> profiles = planned_profiles(ranks_of(plans), rates);
  const Certificate bound = certify(plans, planner.models(), rates);
  const double seconds = estimate_step(plans, planner.models().front().request.lanes, rates).seconds;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    profiles[p].seconds = seconds;
    profiles[p].budgets = plans[p].budgets;
    profiles[p].bound = bound;
    profiles[p].needs = step_needs(plans[p], rates);
  }
  return profiles;
}

StepTimes simulated_times(const std::vector<Plan>& plans, const MachineRates& rates) {
  const std::vector<RankProgram> ranks = ranks_of(plans);
  const RoundTimeline round = std::move(simulate_round(ranks, rates).front());
  StepTimes times{.step = round.seconds};
  times.add(plans.front().training().program, round.instructions);
  return times;
}

StepProfile measured_beside(const StepProfile& planned, const PlannedProgram& program,
                            const RecordedStep& recorded) {
  StepProfile measured = measured_profile(program, recorded);
  measured.budgets = planned.budgets;
  measured.bound = planned.bound;
  measured.needs = planned.needs;
  return measured;
}

void shorten(RunModels& run, std::int64_t steps) {
  run.checkpoint_path.clear();
  run.metrics.clear();
  run.tensorboard.clear();
  run.select = {};
  for (NamedRun& model : run.models) {
    RunConfig& config = model.config;
    config.train.steps = steps;
    config.train.epochs.reset();
    config.train.validate_every = 0;
    config.checkpoint = {};
    config.report = {};
  }
}

void write_planned_trace(const std::string& path, const std::vector<StepProfile>& planned) {
  const TraceGroup groups[] = {{"planned", planned}};
  replace_file(FileSystem::real(), std::filesystem::weakly_canonical(path), make_trace(groups));
}

void write_profile(const std::string& folder, const std::string& run_file,
                   const std::vector<StepProfile>& planned, const std::vector<StepProfile>& measured) {
  write_profile_folder(folder, std::filesystem::path(run_file).filename().string(), planned, measured);
  std::cerr << fmt::format("profile  {}; open it in a browser\n",
                           (std::filesystem::absolute(folder) / "report.html").lexically_normal().string());
}

}  // namespace strata
