#include "engine/config/group_schedule.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <vector>

#include "engine/config/keys.h"
#include "engine/config/value.h"

namespace strata {
namespace {

constexpr std::string_view kSection = "optimizer.schedule.";

std::vector<const Key*> keys_of_schedules() {
  std::vector<const Key*> keys;
  for (const Key& key : config_keys())
    if (key.path.starts_with(kSection)) keys.push_back(&key);
  return keys;
}

}  // namespace

ScheduleSection read_group_schedule(const YAML::Node& node) {
  if (!node.IsMap()) value::refuse(node, "a map such as {type: cosine, warmup: 100}");
  RunConfig config;
  config.train.epochs = 1;  // how many steps the run has is not known here
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string name = value::word(entry.first, "a key");
    if (!seen.insert(name).second) throw value::WrongValue(fmt::format("its key '{}' is given twice", name));
    const Key* key = find_path(config_keys(), std::string(kSection) + name);
    if (key == nullptr) throw value::WrongValue(fmt::format("{} is no key of optimizer.schedule", name));
    value::read_within(name, [&] { key->set(config, entry.second, ""); });
  }
  if (config.schedule.type == ScheduleType::plateau)
    throw value::WrongValue(
        "type: plateau is a schedule of the whole run; use another, or leave it out here");
  for (const Key* key : keys_of_schedules()) {
    if (const std::string problem = key->check(config); !problem.empty())
      throw value::WrongValue(fmt::format("{}: {}", leaf_of(key->path), problem));
  }
  return config.schedule;
}

std::string write_group_schedule(const ScheduleSection& schedule) {
  RunConfig config;
  config.schedule = schedule;
  std::vector<std::string> given;
  for (const Key* key : keys_of_schedules()) {
    const std::string text = key->get(config);
    if (text != key->get(RunConfig())) given.push_back(fmt::format("\"{}\": {}", leaf_of(key->path), text));
  }
  return fmt::format("{{{}}}", fmt::join(given, ", "));
}

}  // namespace strata
