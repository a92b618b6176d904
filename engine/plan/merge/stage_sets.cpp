#include "engine/plan/merge/stage_sets.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/nth.h"

namespace strata {
namespace {

std::vector<std::int32_t> stages_of(std::int64_t rank, std::span<const Mesh> meshes) {
  std::vector<std::int32_t> stages;
  stages.reserve(meshes.size());
  for (const Mesh& mesh : meshes) stages.push_back(static_cast<std::int32_t>(mesh.stage(rank)));
  return stages;
}

/// Each set of ranks that meet must be one of their stage sets' first ranks, too.
void require_that_first_ranks_meet(std::span<const Mesh> meshes, std::span<const StageSet> stage_sets) {
  for (const Mesh& mesh : meshes) {
    for (const RankGroup& group : groups_of(mesh)) {
      std::map<std::int64_t, std::int64_t> set_of_first;
      for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const std::int64_t first = stage_sets[stage_set_of(rank, meshes, stage_sets)].rank,
                           set = group.set_of(first);
        if (set_of_first.try_emplace(group.set_of(rank), set).first->second == set) continue;
        throw ConfigError(
            "parallel.pipeline: the models cut their ranks into stages in ways that do not go together; give "
            "all of them the same parallel.pipeline and parallel.tensor, or one that divides the other");
      }
    }
  }
}

}  // namespace

std::vector<StageSet> stage_sets_of(std::span<const Mesh> meshes) {
  std::vector<StageSet> stage_sets;
  for (std::int64_t rank = 0; rank < meshes.front().ranks(); ++rank) {
    std::vector<std::int32_t> stages = stages_of(rank, meshes);
    if (std::ranges::find(stage_sets, stages, &StageSet::stages) == stage_sets.end())
      stage_sets.push_back({rank, std::move(stages)});
  }
  require_that_first_ranks_meet(meshes, stage_sets);
  return stage_sets;
}

std::size_t stage_set_of(std::int64_t rank, std::span<const Mesh> meshes,
                         std::span<const StageSet> stage_sets) {
  const auto found = std::ranges::find(stage_sets, stages_of(rank, meshes), &StageSet::stages);
  return index_of(stage_sets, found);
}

}  // namespace strata
