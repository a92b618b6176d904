#include "engine/tools/profile/summary.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/program/memory.h"
#include "engine/plan/program/traffic.h"
#include "engine/tools/profile/knobs.h"

namespace strata {
namespace {

nlohmann::json title_or_null(const StepProfile& profile, std::int32_t instruction) {
  if (instruction < 0) return nullptr;
  return title_of(*profile.program, profile.instruction(instruction));
}

nlohmann::json keys_of(std::span<const Knob> knobs) {
  nlohmann::json keys = nlohmann::json::array();
  for (const Knob& knob : knobs) keys.push_back(knob.key);
  return keys;
}

nlohmann::json lane_summary(const StepProfile& profile, Lane lane) {
  std::int64_t slices = 0;
  double waited = 0;
  std::map<std::string, double> waited_for;
  for (const ProfileSlice& slice : profile.slices) {
    if (profile.instruction(slice.instruction).lane != lane) continue;
    ++slices;
    waited += slice.time.waited;
    if (slice.time.awaited >= 0)
      waited_for[std::string(name_of(profile.instruction(slice.time.awaited).operation))] +=
          slice.time.waited;
  }
  if (slices == 0) return nullptr;
  return {{"slices", slices},
          {"busy_seconds", profile.busy_seconds(lane)},
          {"waited_seconds", waited},
          {"waited_for", waited_for}};
}

nlohmann::json tier_summary(const StepProfile& profile, Tier tier) {
  const TierUse use = tier_use(*profile.program, tier);
  if (use.peak_bytes == 0) return nullptr;
  const std::vector<MemoryReading> readings = profile.memory(tier);
  const MemoryReading peak = *std::ranges::max_element(readings, {}, &MemoryReading::bytes);
  nlohmann::json by_kind = nlohmann::json::object();
  for (const BufferKind kind : kBufferKinds) by_kind[std::string(name_of(kind))] = peak.by_kind[kind];
  std::vector<const BufferLife*> alive;
  for (const BufferLife& life : profile.lives) {
    const Buffer& buffer = profile.program->buffer(life.buffer);
    const bool is_alive = life.from <= peak.seconds && peak.seconds < life.to;
    if (is_alive && buffer.tier == tier && buffer.bytes > 0) alive.push_back(&life);
  }
  std::ranges::stable_sort(alive, std::greater(), [&](const BufferLife* life) {
    return profile.program->buffer(life->buffer).bytes;
  });
  alive.resize(std::min(alive.size(), kMostListed));
  nlohmann::json at_peak = nlohmann::json::array();
  for (const BufferLife* life : alive) {
    const Buffer& buffer = profile.program->buffer(life->buffer);
    at_peak.push_back({{"name", *buffer.name},
                       {"kind", name_of(buffer.kind)},
                       {"bytes", buffer.bytes},
                       {"made_by", title_or_null(profile, life->maker)},
                       {"last_used_by", title_or_null(profile, life->last_user)},
                       {"from_seconds", life->from},
                       {"to_seconds", life->to},
                       {"moved_by", keys_of(knobs_of(buffer.kind, tier))}});
  }
  nlohmann::json summary = {{"peak_bytes", use.peak_bytes},
                            {"live_peak_bytes", peak.bytes()},
                            {"live_peak_at_seconds", peak.seconds},
                            {"by_kind", by_kind},
                            {"at_peak", at_peak}};
  const Bytes budget = profile.budgets[tier];
  if (budget < kUnlimited) summary["budget_bytes"] = budget;
  return summary;
}

nlohmann::json needs_summary(const StepNeeds& needs) {
  return {{"compute", needs.compute},
          {"h2d", needs.h2d},
          {"d2h", needs.d2h},
          {"host_memory", needs.host_memory},
          {"nvme", needs.nvme}};
}

}  // namespace

nlohmann::json summary_of(const StepProfile& profile) {
  nlohmann::json lanes = nlohmann::json::object(), memory = nlohmann::json::object(),
                 traffic = nlohmann::json::object();
  for (const Lane lane : kLanes) {
    nlohmann::json of_lane = lane_summary(profile, lane);
    if (!of_lane.is_null()) lanes[std::string(name_of(lane))] = std::move(of_lane);
  }
  for (const Tier tier : kTiers) {
    nlohmann::json of_tier = tier_summary(profile, tier);
    if (!of_tier.is_null()) memory[std::string(name_of(tier))] = std::move(of_tier);
  }
  const Traffic moved = traffic_of(*profile.program, When::every_step);
  for (const Link link : kLinks) {
    if (moved[link] > 0) traffic[std::string(name_of(link))] = moved[link];
  }
  nlohmann::json summary = {
      {"seconds", profile.seconds}, {"lanes", lanes}, {"memory", memory}, {"traffic", traffic}};
  if (!profile.name.empty()) summary["name"] = profile.name;
  if (profile.bound)
    summary["bound"] = {{"seconds", profile.bound->seconds},
                        {"by", name_of(profile.bound->binding)},
                        {"words", words_of(profile.bound->binding)}};
  if (profile.needs) summary["needs"] = needs_summary(*profile.needs);
  return summary;
}

}  // namespace strata
