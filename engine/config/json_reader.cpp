#include "engine/config/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/edit_distance.h"
#include "base/error.h"

namespace strata {
namespace {

/// A value for an error message; long ones (whole sub-objects) are cut.
std::string short_dump(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

}  // namespace

std::optional<std::int64_t> whole_number(const nlohmann::json& value) {
  constexpr double kExact = 1LL << 53;  // floats beyond have no ones
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    return std::abs(number) <= kExact && std::trunc(number) == number
               ? std::optional(static_cast<std::int64_t>(number))
               : std::nullopt;
  }
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  return fits ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

JsonReader::JsonReader(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail(fmt::format("expected a JSON object, found {}", short_dump(object)));
}

const nlohmann::json* JsonReader::find(const std::string& key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.push_back(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

bool JsonReader::has(const std::string& key) {
  const nlohmann::json* value = find(key);
  return value != nullptr && !value->is_null();
}

bool JsonReader::is_null(const std::string& key) {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_null();
}

const nlohmann::json& JsonReader::at(const std::string& key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) missing(key);
  return *value;
}

std::int64_t JsonReader::integer(const std::string& key, std::optional<std::int64_t> fallback,
                                 std::int64_t minimum, std::int64_t maximum) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::optional<std::int64_t> number = whole_number(at(key));
  if (!number || *number < minimum || *number > maximum)
    refuse(key, fmt::format("expected an integer from {} to {}", minimum, maximum));
  return *number;
}

double JsonReader::number(const std::string& key, std::optional<double> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const nlohmann::json& value = at(key);
  if (!value.is_number()) refuse(key, "expected a number");
  return value.get<double>();
}

std::vector<double> JsonReader::positive_numbers(const std::string& key, std::int64_t count) {
  const nlohmann::json* list = find(key);
  if (list == nullptr) missing(key);
  const auto is_positive = [](const nlohmann::json& value) {
    return value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>());
  };
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) != count ||
      !std::all_of(list->begin(), list->end(), is_positive))
    refuse(key, fmt::format("expected a list of {} positive numbers", count));
  return list->get<std::vector<double>>();
}

bool JsonReader::boolean(const std::string& key, bool fallback) {
  if (find(key) == nullptr) return fallback;
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) refuse(key, "expected true or false");
  return value.get<bool>();
}

std::string JsonReader::text(const std::string& key, std::optional<std::string> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const nlohmann::json& value = at(key);
  if (!value.is_string()) refuse(key, "expected a string");
  return value.get<std::string>();
}

void JsonReader::refuse(const std::string& key, const std::string& expected) const {
  const auto found = object_.find(key);
  fail(fmt::format("{} is {}; {}", key, found == object_.end() ? "absent" : short_dump(*found), expected));
}

void JsonReader::fail(const std::string& sentence) const {
  throw ConfigError(fmt::format("{}: {}", where_, sentence));
}

void JsonReader::missing(const std::string& key) const {
  fail(fmt::format("{} is missing", key));
}

void JsonReader::refuse_unknown_keys() const {
  for (const auto& item : object_.items()) {
    const std::string& key = item.key();
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    const auto distance = [&key](const std::string& known) { return edit_distance(key, known); };
    const auto nearest = std::ranges::min_element(asked_, {}, distance);
    const bool near =
        nearest != asked_.end() && distance(*nearest) <= std::max<std::size_t>(2, key.size() / 3);
    fail(fmt::format("unknown key {} ({}); {}take it out if the model computes the same without it", key,
                     short_dump(item.value()),
                     near ? fmt::format("did you mean {}? If not, ", *nearest) : ""));
  }
}

}  // namespace strata
