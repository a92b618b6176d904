#include "engine/input/text/json_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "engine/input/text/utf8.h"

namespace strata::text {

JsonField::JsonField(const nlohmann::json& value, std::string file, std::string place)
    : value_(&value), file_(std::move(file)), place_(std::move(place)) {}

void JsonField::refuse(std::string_view reason) const {
  refuse_below("", reason);
}

void JsonField::refuse_below(std::string_view below, std::string_view reason) const {
  throw ConfigError(
      fmt::format("{}: {}{}{}{}", file_, place_, below, place_.empty() && below.empty() ? "" : ": ", reason));
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_->is_object()) refuse("a map is expected here");
  const auto found = value_->find(key);
  if (found == value_->end()) refuse(fmt::format("'{}' is missing", key));
  return {*found, file_, place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key)};
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!value_->is_object()) refuse("a map is expected here");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return at(key);
}

void JsonField::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) refuse("a map is expected here");
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(keys, key) == keys.end()) {
      at(key).refuse("this setting is not known, so what it asks for cannot be done");
    }
  }
}

std::vector<JsonField> JsonField::elements() const {
  if (!value_->is_array()) refuse("a list is expected here");
  std::vector<JsonField> elements;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    elements.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", place_, i));
  }
  return elements;
}

std::string JsonField::text() const {
  if (!value_->is_string()) refuse("a text is expected here");
  return value_->get<std::string>();
}

char32_t JsonField::character() const {
  const std::string value = text();
  if (count_characters(value) != 1) refuse("one character is expected here");
  return code_point_at(value, 0);
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) refuse("true or false is expected here");
  return value_->get<bool>();
}

std::int32_t JsonField::id() const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;  // ids end behind it
  if (!value_->is_number_integer() || value_->get<double>() < 0 ||
      value_->get<double>() > static_cast<double>(kMost)) {
    refuse("a whole number from 0 to 2147483646 is expected here");
  }
  return static_cast<std::int32_t>(value_->get<std::int64_t>());
}

bool JsonField::flag(std::string_view key, bool otherwise) const {
  const auto field = find(key);
  return field ? field->flag() : otherwise;
}

std::string JsonField::text(std::string_view key, std::string_view otherwise) const {
  const auto field = find(key);
  return field ? field->text() : std::string(otherwise);
}

}  // namespace strata::text
