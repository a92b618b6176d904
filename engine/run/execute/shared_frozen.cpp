#include "engine/run/execute/shared_frozen.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "engine/model/model.h"

namespace strata {
namespace {

std::vector<StateEntry> frozen_entries(const ModelRun& model) {
  std::vector<StateEntry> entries = model.plan().training.program.state;
  std::erase_if(entries, [](const StateEntry& entry) { return entry.part != StateKey::frozen; });
  return entries;
}

}  // namespace

SharedFrozen::SharedFrozen(const std::vector<std::unique_ptr<ModelRun>>& models) : models_(models) {
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (const StateEntry& entry : frozen_entries(*models[m])) ++holders_[place_of(m, entry)];
  }
}

SharedFrozen::Place SharedFrozen::place_of(std::size_t model, const StateEntry& entry) const {
  const Buffer& buffer = models_[model]->plan().training.program.buffer(entry.buffer);
  return {buffer.tier, buffer.offset};
}

bool SharedFrozen::may_be_shared() const {
  return std::ranges::count_if(models_, [](const auto& model) { return model->model().freezes(); }) > 1;
}

void SharedFrozen::check(std::size_t model) {
  RunState& state = models_[model]->state();
  for (const StateEntry& entry : frozen_entries(*models_[model])) {
    const Place place = place_of(model, entry);
    if (holders_[place] < 2) continue;
    const auto unit = static_cast<std::size_t>(entry.unit);
    const std::uint64_t hash = hash_bytes(std::as_bytes(state.read(unit, StateKey::frozen)));
    const Filled& first = filled_.try_emplace(place, Filled{model, hash}).first->second;
    if (first.hash == hash) continue;
    throw ConfigError(fmt::format(
        "model.path: models {} and {} of the run file hold the frozen tensors of {} together, but begin with "
        "other values of them; train them in runs of their own, or begin anew with --fresh",
        first.model + 1, model + 1, models_[model]->plan().training.program.units[unit]));
  }
  state.release_scratch();
}

}  // namespace strata
