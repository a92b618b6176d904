#include "engine/tools/profile/page_data.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/tools/profile/knobs.h"
#include "engine/tools/profile/summary.h"

namespace strata {
namespace {

/// Numbers of values that stand in a table once.
template <typename Value>
class Table {
 public:
  std::int64_t number_of(const Value& value) {
    const auto [found, is_new] = numbers_.try_emplace(value, std::ssize(values_));
    if (is_new) values_.push_back(value);
    return found->second;
  }
  const nlohmann::json& values() const { return values_; }

 private:
  std::map<Value, std::int64_t> numbers_;
  nlohmann::json values_ = nlohmann::json::array();
};

/// "head/input[mb=2]" as "head/input" and 2; -1 where no microbatch is named.
std::pair<std::string, std::int32_t> split_microbatch(const std::string& name) {
  constexpr std::string_view kOpening = "[mb=";
  const std::size_t opening = name.rfind(kOpening);
  if (opening == std::string::npos || !name.ends_with(']')) return {name, -1};
  std::int32_t microbatch = -1;
  const char* end = name.data() + name.size() - 1;
  const auto read = std::from_chars(name.data() + opening + kOpening.size(), end, microbatch);
  // Only what is written again as it was may be cut off.
  if (read.ec != std::errc() || read.ptr != end || microbatch < 0 ||
      name.substr(opening) != fmt::format("[mb={}]", microbatch))
    return {name, -1};
  return {name.substr(0, opening), microbatch};
}

/// A power of ten. A step has at most 10^14 ticks. A tick is so short that an allocation and a release keep
/// their order, and no peak is lost.
double tick_of(double seconds) {
  double tick = 1e-12;
  while (seconds / tick > 1e14) tick *= 10;
  return tick;
}

class PageData {
 public:
  nlohmann::json profile(std::string_view group, const StepProfile& profile) {
    const double tick = tick_of(profile.end);
    const auto ticks = [tick](double seconds) { return std::llround(seconds / tick); };
    return {{"group", group},
            {"name", profile.name},
            {"summary", summary_of(profile)},
            {"tick_seconds", tick},
            {"end", ticks(profile.end)},
            {"slices", slices(profile, ticks)},
            {"lives", lives(profile, ticks)}};
  }

  const nlohmann::json& texts() const { return texts_.values(); }
  const nlohmann::json& sizes() const { return sizes_.values(); }

 private:
  nlohmann::json slices(const StepProfile& profile, const auto& ticks) {
    std::vector<std::int64_t> number, title, microbatch, lane, operation, start, duration, awaited, waited;
    std::int32_t last_number = 0;
    std::int64_t last_start = 0;
    for (const ProfileSlice& slice : profile.slices) {
      Instruction named = outline_of(profile.instruction(slice.instruction));
      const std::int64_t began = ticks(slice.time.start);
      number.push_back(slice.instruction - std::exchange(last_number, slice.instruction));
      microbatch.push_back(std::exchange(named.microbatch, -1));
      title.push_back(texts_.number_of(title_of(*profile.program, named)));
      operation.push_back(texts_.number_of(std::string(name_of(named.operation))));
      lane.push_back(texts_.number_of(std::string(name_of(named.lane))));
      start.push_back(began - std::exchange(last_start, began));
      duration.push_back(ticks(slice.time.end) - began);
      awaited.push_back(slice.time.awaited);
      waited.push_back(ticks(slice.time.waited));
    }
    return {{"number", number},     {"title", title},         {"microbatch", microbatch},
            {"lane", lane},         {"operation", operation}, {"start", start},
            {"duration", duration}, {"awaited", awaited},     {"waited", waited}};
  }

  nlohmann::json lives(const StepProfile& profile, const auto& ticks) {
    std::vector<std::int64_t> name, microbatch, tier, kind, size, from, to, maker, last_user;
    for (const BufferLife& life : profile.lives) {
      const Buffer& buffer = profile.program->buffer(life.buffer);
      if (buffer.bytes == 0) continue;
      const auto [text, of_microbatch] = split_microbatch(*buffer.name);
      name.push_back(texts_.number_of(text));
      microbatch.push_back(of_microbatch);
      tier.push_back(static_cast<std::int64_t>(buffer.tier));
      kind.push_back(static_cast<std::int64_t>(buffer.kind));
      size.push_back(sizes_.number_of(buffer.bytes));
      from.push_back(ticks(life.from));
      to.push_back(ticks(life.to));
      maker.push_back(life.maker);
      last_user.push_back(life.last_user);
    }
    return {{"name", name},
            {"microbatch", microbatch},
            {"tier", tier},
            {"kind", kind},
            {"size", size},
            {"from", from},
            {"to", to},
            {"maker", maker},
            {"last_user", last_user}};
  }

  /// What a title is made of.
  static Instruction outline_of(const Instruction& instruction) {
    return {.operation = instruction.operation,
            .lane = instruction.lane,
            .unit = instruction.unit,
            .microbatch = instruction.microbatch};
  }

  Table<std::string> texts_;
  Table<Bytes> sizes_;
};

nlohmann::json knob_table() {
  nlohmann::json table = nlohmann::json::array();
  for (const BufferKind kind : kBufferKinds) {
    nlohmann::json& of_kind = table.emplace_back(nlohmann::json::array());
    for (const Tier tier : kTiers) {
      nlohmann::json& of_tier = of_kind.emplace_back(nlohmann::json::array());
      for (const Knob& knob : knobs_of(kind, tier)) of_tier.push_back({{"key", knob.key}, {"how", knob.how}});
    }
  }
  return table;
}

nlohmann::json names_of(const auto& values) {
  nlohmann::json names = nlohmann::json::array();
  for (const auto value : values) names.push_back(name_of(value));
  return names;
}

}  // namespace

nlohmann::json page_data(const std::string& run, const std::vector<StepProfile>& planned,
                         const std::vector<StepProfile>& measured) {
  PageData data;
  nlohmann::json profiles = nlohmann::json::array();
  for (const StepProfile& profile : planned) profiles.push_back(data.profile("planned", profile));
  for (const StepProfile& profile : measured) profiles.push_back(data.profile("measured", profile));
  return {{"format", "strata page"},         {"version", 1},          {"run", run},
          {"texts", data.texts()},           {"sizes", data.sizes()}, {"tiers", names_of(kTiers)},
          {"kinds", names_of(kBufferKinds)}, {"knobs", knob_table()}, {"profiles", std::move(profiles)}};
}

}  // namespace strata
