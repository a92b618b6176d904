#include "engine/plan/search/roles.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace strata {
namespace {

std::vector<std::int32_t> stages_of(std::int64_t rank, std::span<const Mesh> meshes) {
  std::vector<std::int32_t> stages;
  stages.reserve(meshes.size());
  for (const Mesh& mesh : meshes) stages.push_back(static_cast<std::int32_t>(mesh.stage(rank)));
  return stages;
}

/// Each set of ranks that meet must be one of their roles' first ranks, too.
void require_that_first_ranks_meet(std::span<const Mesh> meshes, std::span<const RankRole> roles) {
  for (const Mesh& mesh : meshes) {
    for (const RankGroup& group : groups_of(mesh)) {
      std::map<std::int64_t, std::int64_t> set_of_first;
      for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const std::int64_t first = roles[role_of(rank, meshes, roles)].rank, set = group.set_of(first);
        if (set_of_first.try_emplace(group.set_of(rank), set).first->second == set) continue;
        throw ConfigError(
            "parallel.pipeline: the models cut their ranks into stages in ways that do not go together; give "
            "all of them the same parallel.pipeline and parallel.tensor, or one that divides the other");
      }
    }
  }
}

}  // namespace

std::vector<RankRole> roles_of(std::span<const Mesh> meshes) {
  std::vector<RankRole> roles;
  for (std::int64_t rank = 0; rank < meshes.front().ranks(); ++rank) {
    std::vector<std::int32_t> stages = stages_of(rank, meshes);
    if (std::ranges::find(roles, stages, &RankRole::stages) == roles.end())
      roles.push_back({rank, std::move(stages)});
  }
  require_that_first_ranks_meet(meshes, roles);
  return roles;
}

std::size_t role_of(std::int64_t rank, std::span<const Mesh> meshes, std::span<const RankRole> roles) {
  const auto found = std::ranges::find(roles, stages_of(rank, meshes), &RankRole::stages);
  return static_cast<std::size_t>(found - roles.begin());
}

}  // namespace strata
