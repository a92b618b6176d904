#include "engine/plan/cost/machine_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/excerpt.h"
#include "base/json_text.h"
#include "base/shipped_file.h"
#include "engine/config/json_reader.h"
#include "engine/config/nearest.h"
#include "engine/config/value.h"
#include "engine/config/yaml_document.h"

namespace strata {
namespace {

constexpr const char* kMachinePage = "docs/reference/machine-file.md";

enum class ValueKind : std::uint8_t { number, rate, size, count, truth, calls };
/// What a number may be.
enum class LeastValue : std::uint8_t { above_zero, zero };

struct MachineKey {
  const char* name;
  ValueKind kind;
  LeastValue least;
  /// What the key says, if every machine needs it; else empty.
  std::string_view need = {};
};

constexpr auto kMachineKeys = std::to_array<MachineKey>({
    {"flops_per_second", ValueKind::number, LeastValue::above_zero, "operations of matrix products"},
    {"memory_bytes_per_second", ValueKind::rate, LeastValue::above_zero,
     "what the host's memory reads plus writes"},
    {"h2d_bytes_per_second", ValueKind::rate, LeastValue::above_zero, "copies to the device"},
    {"d2h_bytes_per_second", ValueKind::rate, LeastValue::above_zero, "copies back"},
    {"cores_copy", ValueKind::truth, LeastValue::zero, "false for a GPU, true for a CPU"},
    {kDriveReadKey, ValueKind::rate, LeastValue::zero},
    {kDriveWriteKey, ValueKind::rate, LeastValue::zero},
    {"cores", ValueKind::number, LeastValue::above_zero},
    {"copy_bytes_per_second", ValueKind::rate, LeastValue::zero},
    {kMemoryKey, ValueKind::size, LeastValue::above_zero},
    {kDeviceMemoryKey, ValueKind::size, LeastValue::above_zero},
    {kDrivesKey, ValueKind::size, LeastValue::zero},
    {kMeasuredKey, ValueKind::truth, LeastValue::zero},
    {kBf16Key, ValueKind::truth, LeastValue::zero},
    {"kernels", ValueKind::calls, LeastValue::zero},
    {"node_ranks", ValueKind::count, LeastValue::zero},
    {"rank_bytes_per_second", ValueKind::rate, LeastValue::zero},
    {"rank_latency_seconds", ValueKind::number, LeastValue::zero},
    {"node_bytes_per_second", ValueKind::rate, LeastValue::zero},
    {"node_latency_seconds", ValueKind::number, LeastValue::zero},
});

[[noreturn]] void refuse_profile(const std::string& path, std::string_view why) {
  throw ConfigError(fmt::format("plan.machine: {} is no machine profile: {}", path, why));
}

std::string_view expected_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::number:
      return "a number";
    case ValueKind::rate:
      return "a number of bytes or a rate such as 25GB/s";
    case ValueKind::size:
      return "a size such as 64GiB or a whole number of bytes";
    case ValueKind::count:
      return "a whole number";
    case ValueKind::truth:
      return "true or false";
    case ValueKind::calls:
      return "a list";
  }
  return "";
}

/// Bytes of a text such as 64GiB, which is not "unlimited".
std::optional<Bytes> bytes_in(const nlohmann::json& value, std::string_view unit = "") {
  if (!value.is_string()) return std::nullopt;
  std::string_view text = value.get_ref<const std::string&>();
  if (text.ends_with(unit)) text.remove_suffix(unit.size());
  const std::optional<Bytes> bytes = parse_bytes(text);
  return bytes == kUnlimited ? std::nullopt : bytes;
}

/// The value as readers take it; null if it is not of this kind.
nlohmann::json read_value(ValueKind kind, const nlohmann::json& value) {
  const auto json = [](const auto& number) { return number ? nlohmann::json(*number) : nlohmann::json(); };
  const auto if_so = [&](bool is_so) { return is_so ? value : nlohmann::json(); };
  switch (kind) {
    case ValueKind::number:
      return if_so(value.is_number());
    case ValueKind::rate:
      return value.is_number() ? value : json(bytes_in(value, "/s"));
    case ValueKind::size:
      return value.is_string() ? json(bytes_in(value)) : json(whole_number(value));
    case ValueKind::count:
      return json(whole_number(value));
    case ValueKind::truth:
      return if_so(value.is_boolean());
    case ValueKind::calls:
      return if_so(value.is_array());
  }
  return {};
}

void check_least(const MachineKey& key, const nlohmann::json& value, const std::string& path) {
  if (!value.is_number()) return;
  const auto number = value.get<double>();
  if (number > 0 || (key.least == LeastValue::zero && number == 0)) return;
  refuse_profile(path, fmt::format("{} is {}", key.name, number));
}

void check_key(const std::string& name, const std::string& path) {
  if (std::ranges::any_of(kMachineKeys, [&](const MachineKey& key) { return key.name == name; })) return;
  std::vector<std::string> names;
  names.reserve(kMachineKeys.size());
  for (const MachineKey& key : kMachineKeys) names.emplace_back(key.name);
  const std::string nearest = suggest_name(name, names);
  refuse_profile(
      path, fmt::format("unknown key '{}': {}", excerpt(name),
                        nearest.empty() ? fmt::format("the keys are {}", fmt::join(names, ", ")) : nearest));
}

void check_missing(const nlohmann::json& document, const std::string& path) {
  std::vector<std::string> missing;
  for (const MachineKey& key : kMachineKeys)
    if (!key.need.empty() && !document.contains(key.name))
      missing.push_back(fmt::format("{} ({})", key.name, key.need));
  if (document.contains(kDrivesKey)) {
    for (const char* key : {kDriveReadKey, kDriveWriteKey})
      if (!document.contains(key))
        missing.push_back(fmt::format("{} (of the drives in {})", key, kDrivesKey));
  }
  if (missing.empty()) return;
  refuse_profile(path, fmt::format("it lacks {}; {} explains the keys", fmt::join(missing, ", "),
                                   shipped_file(kMachinePage)));
}

nlohmann::json as_json(std::string_view text, const std::string& path) {
  const std::string where = "plan.machine: " + path;
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return parse_json(text, where);
  try {
    return value::to_json(parse_yaml(std::string(text), {.name = where}).root);
  } catch (const value::WrongValue& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

nlohmann::json machine_document(std::string_view text, const std::string& path) {
  nlohmann::json document = as_json(text, path);
  if (!document.is_object()) refuse_profile(path, "it has no keys");
  for (const auto& [name, value] : document.items()) check_key(name, path);
  for (const MachineKey& key : kMachineKeys) {
    const auto found = document.find(key.name);
    if (found == document.end()) continue;
    nlohmann::json value = read_value(key.kind, *found);
    if (value.is_null())
      refuse_profile(path, fmt::format("{}: expected {}, found {}", key.name, expected_of(key.kind),
                                       json_excerpt(*found)));
    check_least(key, value, path);
    *found = std::move(value);
  }
  check_missing(document, path);
  return document;
}

}  // namespace strata
