#include "engine/run/assembly/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/task_arena.h"
#include "base/topology.h"
#include "collectives/agreement.h"
#include "collectives/same_on_all.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/run/assembly/device.h"
#include "engine/run/assembly/host.h"
#include "engine/run/assembly/load_model.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/tune/planning_rates.h"

namespace strata {
namespace {

/// Settings, and where they are from.
struct Found {
  std::vector<std::string> settings;
  std::string why;
};

/// Whether settings give each key a value that the run file leaves open, and no other. A layout has shards by
/// its replicas, and no value of parallel.shard.
bool are_those_of(const std::vector<std::string>& settings, const std::vector<std::string>& open) {
  std::set<std::string> given, asked(open.begin(), open.end());
  for (const std::string& setting : settings) given.insert(setting.substr(0, setting.find('=')));
  asked.erase("parallel.shard");
  return given == asked;
}

/// What the newest checkpoint that says anything was trained with, if by as many ranks and if the run file
/// still leaves the same open.
std::optional<Found> stored_layout(const RunConfig& open, std::int64_t ranks) {
  const std::string& path = open.checkpoint.path;
  if (path.empty()) return std::nullopt;
  for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), path)) {
    if (!entry.manifest) continue;
    const Progress& progress = entry.manifest->progress;
    if (progress.layout_ranks != ranks || !are_those_of(progress.layout, open.plan.open)) return std::nullopt;
    return Found{progress.layout,
                 fmt::format("the run resumes from {}, which has it", entry.folder.string())};
  }
  return std::nullopt;
}

Found search(const RunConfig& open, std::int64_t ranks, const OnPlanning& on_planning) {
  const LayoutInput input = layout_input(open, ranks, on_planning);
  const LayoutSearch search = find_layout(input);
  return {settings_of(search.best().layout, open),
          fmt::format("of {} layouts none has a step that is shorter by more than 1 %, {:.3g} s as planned; "
                      "strata plan --search shows the others",
                      search.trials.size(), search.best().planned->seconds)};
}

}  // namespace

int ranks_of_node(const RunConfig& config) {
  const std::int64_t node = planning_rates(config).links.node_ranks;
  return node == 0 ? 1 : static_cast<int>(std::min(node, config.ranks()));
}

LayoutInput layout_input(const RunConfig& open, std::int64_t ranks, OnPlanning on_planning) {
  LayoutInput input = {.open = open,
                       .ranks = ranks,
                       .rates = planning_rates(open),
                       .architecture = load_architecture(open),
                       .on_planning = std::move(on_planning)};
  // What its kernels and files need differs by far less from layout to layout than budgets are.
  const auto share = std::make_shared<std::optional<HostShare>>();
  input.set_budgets = [share, host = planned_host(open)](RunConfig& config, const Model& model) {
    if (!*share) *share = share_of_run({{"", &config, &model}}, host, ranks_of_node(config)).host;
    set_unlimited(config.memory, config.device.kind, **share);
  };
  return input;
}

LayoutSearch find_layout(const LayoutInput& input) {
  std::optional<LayoutSearch> search;
  TaskArena arena(usable_cores());
  arena.execute([&] { search = search_layouts(input); });
  return std::move(*search);
}

AgreedLayout agree_on_layout(RunConfig& config, bool fresh, std::int64_t ranks, Communicator* world,
                             const OnPlanning& on_planning) {
  require_same(world,
               {{"plan.search", std::string(word_of(config.plan.search))},
                {"what plan.search is to choose", fmt::format("{}", fmt::join(config.plan.open, " "))}},
               "all ranks of a run need the same run file");
  if (config.plan.search == PlanSearch::none) return {};
  const std::string text = text_of_first_rank(world, [&] {
    std::optional<Found> found;
    if (!fresh) found = stored_layout(config, ranks);
    if (!found) found = search(config, ranks, on_planning);
    return nlohmann::json{{"settings", found->settings}, {"why", found->why}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  const nlohmann::json json = nlohmann::json::parse(text);
  AgreedLayout agreed = {.settings = json.at("settings").get<std::vector<std::string>>(), .line = {}};
  agreed.line = fmt::format("layout   {}, which plan.search auto chose: {}", fmt::join(agreed.settings, " "),
                            json.at("why").get<std::string>());
  config = with_settings(config, agreed.settings);
  return agreed;
}

}  // namespace strata
