#include "engine/input/chat/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/input/chat/object.h"
#include "engine/input/chat/operators.h"
#include "engine/input/chat/problem.h"
#include "engine/input/text/utf8.h"

namespace strata::chat {
namespace {

constexpr int kMostDepth = 100;

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

int depth_around(int depth) {
  if (depth >= kMostDepth) throw Problem(fmt::format("values are nested more than {} deep", kMostDepth));
  return depth + 1;
}

std::string valid_text(const std::string& bytes) {
  std::string buffer;
  return std::string(text::make_valid(bytes, buffer));
}

Value from_json(const nlohmann::ordered_json& json, int depth) {
  depth_around(depth);
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Problem(fmt::format("{} is too large: whole numbers have 64 bits here", json.get<std::uint64_t>()));
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return valid_text(json.get_ref<const std::string&>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& each : json) items.push_back(from_json(each, depth + 1));
    return list(std::move(items));
  }
  if (!json.is_object()) throw Problem("JSON's binary values are no values of templates");
  Dict dict;
  for (const auto& [key, value] : json.items())
    dict.entries.emplace_back(valid_text(key), from_json(value, depth + 1));
  return dict;
}

}  // namespace

Value::Value(std::string text) {
  Meter::count_made(text.size());
  data_ = TextData{std::make_shared<const std::string>(std::move(text))};
}

Value::Value(Sequence sequence) {
  Meter::count_made(sequence.items.size() * sizeof(Value));
  for (const Value& item : sequence.items) sequence.depth = std::max(sequence.depth, depth_of(item));
  sequence.depth = depth_around(sequence.depth);
  data_ = std::make_shared<const Sequence>(std::move(sequence));
}

Value::Value(Dict dict) {
  Meter::count_made(dict.entries.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : dict.entries)
    dict.depth = std::max({dict.depth, depth_of(key), depth_of(value)});
  dict.depth = depth_around(dict.depth);
  data_ = std::make_shared<const Dict>(std::move(dict));
}

Value Value::undefined(std::string reason) {
  Meter::count_made(reason.size());
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(reason))};
  return value;
}

const std::string* Value::text() const {
  const auto* held = std::get_if<TextData>(&data_);
  if (held == nullptr) return nullptr;
  Meter::count_read(held->text->size());
  return held->text.get();
}

bool Value::is_markup() const {
  const auto* held = std::get_if<TextData>(&data_);
  return held != nullptr && held->is_markup;
}

Value Value::markup(std::string text) {
  Value value(std::move(text));
  std::get<TextData>(value.data_).is_markup = true;
  return value;
}

const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
  return held == nullptr ? nullptr : held->get();
}

const Dict* Value::dict() const {
  const auto* held = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return held == nullptr ? nullptr : held->get();
}

Object* Value::object() const {
  const auto* held = std::get_if<Object*>(&data_);
  return held == nullptr ? nullptr : *held;
}

std::optional<std::int64_t> Value::integer() const {
  if (const bool* held = flag()) return *held ? 1 : 0;
  if (const auto* held = std::get_if<std::int64_t>(&data_)) return *held;
  return std::nullopt;
}

const Value* Dict::find(std::string_view key) const {
  Meter::count_search(entries.size());
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) {
    const auto* name = std::get_if<TextData>(&entry.first.data());
    return name != nullptr && *name->text == key;
  });
  return found == entries.end() ? nullptr : &found->second;
}

const Value* Dict::find(const Value& key) const {
  if (key.sequence() != nullptr || key.dict() != nullptr) {
    throw Problem(fmt::format("a '{}' as a key of a dict is not supported", type_name(key)));
  }
  if (const std::string* text = key.text()) return find(std::string_view(*text));
  Meter::count_search(entries.size());
  const auto found =
      std::ranges::find_if(entries, [&](const auto& entry) { return are_equal_scalars(entry.first, key); });
  return found == entries.end() ? nullptr : &found->second;
}

void Dict::set(const Value& key, Value value) {
  if (const Value* there = find(key)) {
    *const_cast<Value*>(there) = std::move(value);
  } else {
    entries.emplace_back(key, std::move(value));
  }
}

Value list(std::vector<Value> items) {
  return Sequence{.kind = SequenceKind::list, .items = std::move(items)};
}

Value tuple(std::vector<Value> items) {
  return Sequence{.kind = SequenceKind::tuple, .items = std::move(items)};
}

Value from_json(const nlohmann::ordered_json& json) {
  return from_json(json, 0);
}

std::string_view type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool", "int",   "float",
                                         "str",       "",         "dict", "object"};
  constexpr std::string_view kSequences[] = {"list",      "tuple",       "range",
                                             "dict_keys", "dict_values", "dict_items"};
  if (const Sequence* sequence = value.sequence()) return kSequences[static_cast<int>(sequence->kind)];
  if (const Object* object = value.object()) return object->type_name();
  return kNames[value.data().index()];
}

}  // namespace strata::chat
