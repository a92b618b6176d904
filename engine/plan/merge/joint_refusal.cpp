// What to tell a user whose budgets do not hold several models at once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/nth.h"
#include "engine/config/choices.h"
#include "engine/model/model.h"
#include "engine/plan/merge/joint.h"
#include "engine/plan/place/placement.h"
#include "engine/plan/place/refusal.h"
#include "engine/plan/place/search.h"
#include "engine/plan/place/stage_plans.h"

namespace strata {
namespace {

/// What of a program is on the device all the time.
Bytes staying_bytes(const Program& program) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.tier == Tier::device) bytes += buffer.bytes;
  }
  return bytes;
}

/// What of that other models have brought already; adds what it brings to `brought`, by number.
Bytes brought_bytes(const Program& program, std::span<const std::int32_t> shared_frozen,
                    std::set<std::int32_t>& brought) {
  Bytes bytes = 0;
  for (const StateEntry& place : program.state) {
    if (place.part != StateKey::frozen || program.buffer(place.buffer).tier != Tier::device) continue;
    const std::int32_t number = nth(shared_frozen, place.unit);
    if (number >= 0 && !brought.insert(number).second) bytes += program.buffer(place.buffer).bytes;
  }
  return bytes;
}

}  // namespace

/// The hungriest model's turn beside what the others have there all the time, on the rank with most of it; or
/// as much more as has room for a turn sequence.
std::optional<Bytes> JointPlanner::find_smallest_device() const {
  std::vector<ModelToPlan> models = models_;
  for (ModelToPlan& model : models) {
    model.request.leave_out_drives();
    MemoryRequest& memory = model.request.memory;
    if (memory.host) memory.host = kUnlimited;
    if (may_choose_state(memory)) memory.wanted[BufferKind::optimizer_state] = TierChoice::host;
  }
  const auto set_device = [&](Bytes device) {
    for (ModelToPlan& model : models) model.request.memory.device = device;
  };
  Bytes turn = 0, staying = 0;
  std::map<std::size_t, std::set<std::int32_t>> brought;  // by stage
  for (std::size_t m = 0; m < models.size(); ++m) {
    PlanRequest& request = models[m].request;
    const Bytes alone = request.memory.device = smallest_device_bytes(request, *models[m].model);
    Bytes most = 0, most_added = 0;
    std::size_t stage = 0;
    for (const Plan& plan : make_plans(request, *models[m].model, rates_)) {
      const Program& program = plan.training().program;
      const Bytes bytes = staying_bytes(program);
      most = std::max(most, bytes);
      most_added = std::max(most_added, bytes - brought_bytes(program, shared_frozen_[m], brought[stage++]));
    }
    turn = std::max(turn, alone - most);
    staying += most_added;
  }
  const Bytes given = models_.front().request.memory.device;
  Bytes device = std::max(turn + staying, given + kBufferAlignment);
  constexpr int kMostTries = 32;
  for (int tries = 0; tries < kMostTries;
       ++tries, device = align_up(device + device / 32, kBufferAlignment)) {
    set_device(device);
    if (JointPlanner(models, rates_).find(std::vector<std::int64_t>(models.size(), 1))) return device;
  }
  return std::nullopt;
}

void JointPlanner::refuse(const Hindrance& hindrance) const {
  if (hindrance.is_waiting) {
    throw ConfigError(
        "parallel.pipeline: models of other meshes would gather parameters in other orders on ranks of "
        "different stages; give all models the same parallel.pipeline, or those without one "
        "parallel.zero_stage: 2 or less");
  }
  const Shortage& shortage = hindrance.shortage;
  const MemoryRequest& memory = models_.front().request.memory;
  const auto lacks = [&](const std::string& what) {
    return BudgetError(what + "; give it more, or train fewer models at once");
  };
  if (shortage.host == kUnlimited && shortage.nvme == kUnlimited) {
    if (const std::optional<Bytes> smallest = find_smallest_device()) {
      throw lacks(
          fmt::format("memory.device: {} does not hold what {} models need at once: the smallest that works "
                      "is {} ({} bytes)",
                      format_bytes(memory.device), models_.size(), format_bytes(*smallest), *smallest));
    }
  }
  // If one of them has no room alone, that is what is wrong.
  for (const ModelToPlan& model : models_) make_plans(model.request, *model.model, rates_);
  if (shortage.host != kUnlimited) {
    throw lacks(fmt::format("memory.host: the state of {} models needs {}, more than {}", models_.size(),
                            format_bytes(shortage.host), format_bytes(*memory.host)));
  }
  if (shortage.nvme != kUnlimited) {
    throw lacks(fmt::format("memory.nvme.size: the state of {} models needs {} there, more than {}",
                            models_.size(), format_bytes(shortage.nvme), format_bytes(*memory.nvme)));
  }
  throw lacks(fmt::format("memory.device: {} does not hold what {} models need at once",
                          format_bytes(memory.device), models_.size()));
}

}  // namespace strata
