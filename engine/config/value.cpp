#include "engine/config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/config/group_schedule.h"
#include "engine/config/path_text.h"

namespace strata::value {
namespace {

bool is_quoted(const YAML::Node& node) {
  return node.Tag() == "!";
}

std::string found(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsScalar() && is_quoted(node)) return fmt::format("the text \"{}\" in quotes", node.Scalar());
  if (node.IsScalar()) return fmt::format("'{}'", node.Scalar());
  return "nothing";
}

template <typename T>
std::optional<T> parse(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T result{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return result;
}

std::optional<double> parse_number(std::string_view text) {
  const auto result = parse<double>(text);
  return result && std::isfinite(*result) ? result : std::nullopt;
}

/// A double-quoted scalar of YAML and, if the text is UTF-8, of JSON. A path may be of any bytes, which
/// stay as they are.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\u{:04x}", byte);
    } else {
      if (character == '"' || character == '\\') result += '\\';
      result += character;
    }
  }
  return result + "\"";
}

StepSpan read_span(const YAML::Node& node) {
  constexpr std::string_view kExpected = "a step such as 3 or a range such as 100-102";
  const std::string text = word(node, kExpected);
  const std::size_t dash = text.find('-');
  const auto first = parse<std::int64_t>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse<std::int64_t>(text.substr(dash + 1));
  if (!first || !last) refuse(node, kExpected);
  return {*first, *last};
}

double read_not_negative(const YAML::Node& node) {
  const double result = Number::read(node);
  if (result < 0) throw WrongValue(fmt::format("must not be negative, not {}", result));
  return result;
}

TensorGroup read_group(const YAML::Node& node) {
  if (!node.IsMap()) refuse(node, "a map such as {tensors: '*.bias', weight_decay: 0}");
  TensorGroup group;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = word(entry.first, "a key");
    if (!seen.insert(key).second) throw WrongValue(fmt::format("its key '{}' is given twice", key));
    read_within(key, [&] {
      if (key == "tensors") {
        group.tensors = PatternList::read(entry.second);
      } else if (key == "lr_factor") {
        group.learning_rate_factor = read_not_negative(entry.second);
      } else if (key == "weight_decay") {
        group.weight_decay = read_not_negative(entry.second);
      } else if (key == "schedule") {
        group.schedule = read_group_schedule(entry.second);
      } else if (key == "type") {
        group.type = Word<OptimizerType>::read(entry.second);
      } else {
        throw WrongValue(
            "is no key of a group, which has tensors, lr_factor, weight_decay, schedule and type");
      }
    });
  }
  if (group.tensors.empty())
    throw WrongValue("names no tensors; add patterns of their names, as tensors: '*.bias'");
  if (!group.learning_rate_factor && !group.weight_decay && !group.schedule && !group.type)
    throw WrongValue("changes nothing; add lr_factor, weight_decay, schedule or type, or take it out");
  return group;
}

DataSource read_source(const YAML::Node& node, const std::string& run_file_folder) {
  if (!node.IsMap()) refuse(node, "a map such as {path: 'code/*.txt', weight: 0.3}");
  DataSource source;
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const std::string key = word(entry.first, "a key");
    if (!seen.insert(key).second) throw WrongValue(fmt::format("its key '{}' is given twice", key));
    read_within(key, [&] {
      if (key == "path") {
        source.path = FilePatterns::read(entry.second, run_file_folder);
      } else if (key == "weight") {
        source.weight = Number::read(entry.second);
        if (source.weight <= 0)
          throw WrongValue(fmt::format("must be greater than 0, not {}", source.weight));
      } else {
        throw WrongValue("is no key of a source, which has path and weight");
      }
    });
  }
  if (source.path.empty()) throw WrongValue("names no files; add them, as path: 'code/*.txt'");
  return source;
}

nlohmann::json scalar_to_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  utf8(text);
  if (is_quoted(node)) return text;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto integer = parse<std::int64_t>(text)) return *integer;
  if (const auto integer = parse<std::uint64_t>(text)) return *integer;
  if (const auto number = parse_number(text)) return *number;
  return text;
}

nlohmann::json node_to_json(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth) refuse_depth();  // aliases may add up to more than the file's own depth
  if (node.IsNull()) return nullptr;
  if (node.IsScalar()) return scalar_to_json(node);
  if (node.IsSequence()) {
    auto list = nlohmann::json::array();
    for (const YAML::Node& item : node) list.push_back(node_to_json(item, depth + 1));
    return list;
  }
  auto map = nlohmann::json::object();
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) refuse(entry.first, "a key");
    const std::string& key = map_key(entry.first.Scalar());
    if (map.contains(key)) throw WrongValue(fmt::format("its key '{}' is given twice", key));
    map[key] = node_to_json(entry.second, depth + 1);
  }
  return map;
}

}  // namespace

void refuse(const YAML::Node& node, std::string_view expected) {
  throw WrongValue(fmt::format("expected {}, found {}", expected, found(node)));
}

const std::string& utf8(const std::string& text) try {
  (void)nlohmann::json(text).dump();
  return text;
} catch (const nlohmann::json::type_error&) {
  throw WrongValue("holds a text that is not UTF-8");
}

const std::string& map_key(const std::string& text) {
  constexpr std::size_t kLongestKey = 1000;  // of YAML's 1024 on one line
  if (nlohmann::json(utf8(text)).dump().size() > kLongestKey)
    throw WrongValue(fmt::format("has a key of more than {} bytes", kLongestKey));
  return text;
}

void refuse_depth() {
  throw WrongValue(fmt::format("is nested more than {} levels deep", kMaxDepth));
}

std::string word(const YAML::Node& node, std::string_view expected) {
  if (!node.IsScalar()) refuse(node, expected);
  return node.Scalar();
}

std::string plain_text(const YAML::Node& node, std::string_view expected) {
  if (!node.IsScalar() || is_quoted(node)) refuse(node, expected);
  return node.Scalar();
}

std::vector<std::int64_t> IntegerList::read(const YAML::Node& node) {
  if (!node.IsSequence()) refuse(node, "a list of integers");
  std::vector<std::int64_t> result;
  result.reserve(node.size());
  for (const YAML::Node& item : node) result.push_back(Integer<std::int64_t>::read(item));
  return result;
}

std::string IntegerList::write(const std::vector<std::int64_t>& value) {
  return value.empty() ? "" : fmt::format("[{}]", fmt::join(value, ", "));
}

std::vector<StepSpan> StepSpans::read(const YAML::Node& node) {
  if (node.IsScalar()) return {read_span(node)};
  if (!node.IsSequence()) refuse(node, "steps such as [3, 100-102]");
  std::vector<StepSpan> result;
  result.reserve(node.size());
  for (const YAML::Node& item : node) result.push_back(read_span(item));
  return result;
}

std::string StepSpans::write(const std::vector<StepSpan>& value) {
  std::vector<std::string> items;
  items.reserve(value.size());
  for (const auto& [first, last] : value)
    items.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  return value.empty() ? "" : fmt::format("[{}]", fmt::join(items, ", "));
}

double Number::read(const YAML::Node& node) {
  const auto result = parse_number(plain_text(node, "a number"));
  if (!result) refuse(node, "a number");
  return *result;
}

std::string Number::write(double value) {
  return fmt::format("{}", value);
}

std::array<double, 2> NumberPair::read(const YAML::Node& node) {
  if (!node.IsSequence() || node.size() != 2) refuse(node, "a list of two numbers");
  return {Number::read(node[0]), Number::read(node[1])};
}

std::string NumberPair::write(const std::array<double, 2>& value) {
  return fmt::format("[{}, {}]", value[0], value[1]);
}

bool Boolean::read(const YAML::Node& node) {
  const std::string text = plain_text(node, "true or false");
  if (text != "true" && text != "false") refuse(node, "true or false");
  return text == "true";
}

std::string Text::read(const YAML::Node& node) {
  if (!node.IsScalar()) refuse(node, "text");
  return node.Scalar();
}

std::string Text::write(const std::string& value) {
  return value.empty() ? "" : quoted(value);
}

std::string Path::read(const YAML::Node& node, const std::string& run_file_folder) {
  return read_path(Text::read(node), run_file_folder);
}

std::string Path::write(const std::string& value) {
  return Text::write(write_path(value));
}

std::string FolderOrNone::read(const YAML::Node& node, const std::string& run_file_folder) {
  const std::string text = Path::read(node, run_file_folder);
  return text == "none" ? "" : text;
}

std::string FolderOrNone::write(const std::string& value) {
  return value.empty() ? "none" : Path::write(value);
}

std::vector<std::string> TextList::read(const YAML::Node& node) {
  if (node.IsScalar()) return {node.Scalar()};
  if (!node.IsSequence()) refuse(node, "text or a list of texts");
  std::vector<std::string> result;
  for (const YAML::Node& item : node) result.push_back(Text::read(item));
  return result;
}

std::string TextList::write(const std::vector<std::string>& value) {
  if (value.empty()) return "";
  std::vector<std::string> items;
  items.reserve(value.size());
  for (const std::string& item : value) items.push_back(quoted(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::vector<std::string> PathList::read(const YAML::Node& node, const std::string& run_file_folder) {
  std::vector<std::string> paths = TextList::read(node);
  for (std::string& path : paths) path = read_path(path, run_file_folder);
  return paths;
}

std::string PathList::write(const std::vector<std::string>& value) {
  std::vector<std::string> texts;
  texts.reserve(value.size());
  for (const std::string& path : value) texts.push_back(write_path(path));
  return TextList::write(texts);
}

std::vector<std::string> FilePatterns::read(const YAML::Node& node, const std::string& run_file_folder) {
  std::vector<std::string> patterns = TextList::read(node);
  for (std::string& pattern : patterns) pattern = read_path(pattern, run_file_folder, PathForm::pattern);
  return patterns;
}

std::vector<std::string> PatternList::read(const YAML::Node& node) {
  std::vector<std::string> patterns = TextList::read(node);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(pattern, [](char c) { return static_cast<unsigned char>(c) > 127; }))
      throw WrongValue("must be patterns in plain ASCII, as the names of tensors are");
  }
  return patterns;
}

std::vector<TensorGroup> TensorGroups::read(const YAML::Node& node) {
  if (!node.IsSequence()) refuse(node, "a list such as [{tensors: '*.bias', weight_decay: 0}]");
  std::vector<TensorGroup> groups;
  for (const YAML::Node& item : node) {
    groups.push_back(
        read_within(fmt::format("group {}", groups.size() + 1), [&] { return read_group(item); }));
  }
  return groups;
}

std::string TensorGroups::write(const std::vector<TensorGroup>& value) {
  if (value.empty()) return "";
  std::vector<std::string> groups;
  for (const TensorGroup& group : value) {
    std::string text = "\"tensors\": " + PatternList::write(group.tensors);
    if (group.learning_rate_factor) text += fmt::format(", \"lr_factor\": {}", *group.learning_rate_factor);
    if (group.weight_decay) text += fmt::format(", \"weight_decay\": {}", *group.weight_decay);
    if (group.schedule) text += ", \"schedule\": " + write_group_schedule(*group.schedule);
    if (group.type) text += ", \"type\": " + Word<OptimizerType>::write(*group.type);
    groups.push_back("{" + text + "}");
  }
  return fmt::format("[{}]", fmt::join(groups, ", "));
}

std::vector<SchedulePoint> SchedulePoints::read(const YAML::Node& node) {
  constexpr std::string_view kExample = "a list such as [[0, 1], [800, 0.1]]";
  if (!node.IsSequence()) refuse(node, kExample);
  std::vector<SchedulePoint> points;
  for (const YAML::Node& item : node) {
    if (!item.IsSequence() || item.size() != 2) refuse(item, "a step and a factor, as [800, 0.1]");
    points.push_back(read_within(fmt::format("point {}", points.size() + 1), [&] {
      return SchedulePoint{Integer<std::int64_t>::read(item[0]), Number::read(item[1])};
    }));
  }
  return points;
}

std::string SchedulePoints::write(const std::vector<SchedulePoint>& value) {
  if (value.empty()) return "";
  std::vector<std::string> points;
  points.reserve(value.size());
  for (const auto& [step, factor] : value) points.push_back(fmt::format("[{}, {}]", step, factor));
  return fmt::format("[{}]", fmt::join(points, ", "));
}

std::vector<DataSource> DataSources::read(const YAML::Node& node, const std::string& run_file_folder) {
  if (!node.IsSequence()) refuse(node, "a list such as [{path: 'code/*.txt', weight: 0.3}]");
  std::vector<DataSource> sources;
  for (const YAML::Node& item : node) {
    sources.push_back(read_within(fmt::format("source {}", sources.size() + 1),
                                  [&] { return read_source(item, run_file_folder); }));
  }
  return sources;
}

std::string DataSources::write(const std::vector<DataSource>& value) {
  if (value.empty()) return "";
  std::vector<std::string> sources;
  sources.reserve(value.size());
  for (const auto& [path, weight] : value)
    sources.push_back(fmt::format("{{\"path\": {}, \"weight\": {}}}", FilePatterns::write(path), weight));
  return fmt::format("[{}]", fmt::join(sources, ", "));
}

void for_each_pattern(const YAML::Node& node,
                      const std::function<void(const std::string&, const YAML::Node&)>& read) {
  if (!node.IsMap()) refuse(node, "a map such as {q_proj: 8}");
  std::set<std::string> patterns;
  for (const auto& entry : node) {
    const std::string pattern = utf8(word(entry.first, "a pattern of names"));
    read_within(pattern, [&] {
      if (pattern.empty()) throw WrongValue("names no layer");
      if (!patterns.insert(pattern).second) throw WrongValue("is given twice");
      read(pattern, entry.second);
    });
  }
}

std::map<std::string, std::string> FieldNames::read(const YAML::Node& node) {
  if (!node.IsMap()) refuse(node, "a map such as {messages: conversations}");
  std::map<std::string, std::string> names;
  for (const auto& entry : node) {
    const std::string field = word(entry.first, "a key");
    read_within(field, [&] {
      if (!std::ranges::count(kRecordFields, field))
        throw WrongValue(
            fmt::format("is no field of a record, which has {}", fmt::join(kRecordFields, ", ")));
      const std::string name = utf8(Text::read(entry.second));
      if (name.empty()) throw WrongValue("names no key");
      if (!names.emplace(field, name).second) throw WrongValue("is given twice");
    });
  }
  return names;
}

std::string FieldNames::write(const std::map<std::string, std::string>& value) {
  std::vector<std::string> names;
  names.reserve(value.size());
  for (const auto& [field, name] : value) names.push_back(fmt::format("\"{}\": {}", field, quoted(name)));
  return names.empty() ? "" : fmt::format("{{{}}}", fmt::join(names, ", "));
}

Bytes Size::read(const YAML::Node& node) {
  constexpr std::string_view expected = "a size such as 2GiB, 512MB or unlimited";
  if (!node.IsScalar()) refuse(node, expected);
  const auto result = parse_bytes(node.Scalar());
  if (!result) refuse(node, expected);
  return *result;
}

std::string Size::write(Bytes value) {
  return exact_bytes(value);
}

std::optional<Bytes> Rate::read(const YAML::Node& node) {
  constexpr std::string_view expected = "a rate such as 1GB/s or unlimited";
  if (!node.IsScalar()) refuse(node, expected);
  std::string_view text = node.Scalar();
  if (text.ends_with("/s")) text.remove_suffix(2);
  const auto result = parse_bytes(text);
  if (!result) refuse(node, expected);
  return *result == kUnlimited ? std::nullopt : result;
}

std::string Rate::write(Bytes value) {
  return exact_bytes(value) + "/s";
}

nlohmann::json to_json(const YAML::Node& node) {
  return node_to_json(node, 0);
}

nlohmann::json Json::read(const YAML::Node& node) {
  if (!node.IsMap()) refuse(node, "a map");
  return to_json(node);
}

std::string Json::write(const nlohmann::json& value) {
  return value.empty() ? "" : value.dump();
}

}  // namespace strata::value
