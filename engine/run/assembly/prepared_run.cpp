#include "engine/run/assembly/prepared_run.h"

#include <filesystem>
#include <map>
#include <utility>

#include "collectives/agreement.h"
#include "engine/config/run_config.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/assembly/one_run.h"

namespace strata {
namespace {

/// Reads, on the first rank, the files that checkpoints have beside the state. Models of one folder share
/// them.
void read_companions(std::vector<PreparedModel>& models, const RunRank& rank) {
  if (!rank.is_first()) return;
  std::map<std::pair<std::filesystem::path, std::filesystem::path>, std::shared_ptr<const Companions>> read;
  for (PreparedModel& model : models) {
    if (model.config.checkpoint.path.empty()) continue;
    const CompanionSources sources = companion_sources(model.config);
    std::shared_ptr<const Companions>& known = read[{sources.model, sources.tokenizer}];
    if (!known) known = std::make_shared<const Companions>(find_companions(sources, model.warnings));
    model.companions = known;
  }
}

/// Sets the budgets of all models, which are the run's.
PreparedMachine prepare_machine(std::vector<PreparedModel>& models, const RunRank& rank) {
  PreparedMachine machine;
  RunConfig& run = models.front().config;
  machine.device = make_device(run, rank.local_rank);
  std::vector<ConfiguredModel> sharing;
  sharing.reserve(models.size());
  for (const PreparedModel& model : models) sharing.push_back({"", &model.config, &model.model});
  RunShare share = share_of_run(sharing, this_host(run), rank.local_size);
  machine.scratch = std::move(share.scratch);
  machine.host = share.host;
  run.memory.device = device_budget(run, *machine.device, total(machine.scratch));
  set_unlimited(run.memory, run.device.kind, machine.host);
  for (PreparedModel& model : models) model.config.memory = run.memory;
  return machine;
}

}  // namespace

PreparedRun prepare_run(const std::vector<RunConfig>& agreed, bool fresh, const RunRank& rank,
                        const RunNotes& notes) {
  PreparedRun run;
  on_every_rank(rank.world, [&] {
    for (const RunConfig& config : agreed) run.models.push_back(prepare_model(config, rank, notes));
    read_companions(run.models, rank);
    run.machine = prepare_machine(run.models, rank);
  });
  RunConfig& first = run.models.front().config;
  run.rates = agree_on_hosts(first, rank.world);
  for (PreparedModel& model : run.models) {
    model.config.memory = first.memory;
    require_one_run(model, fresh, rank.world);
  }
  return run;
}

}  // namespace strata
