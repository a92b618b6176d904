// How one value of the run file is read from YAML and written back, per kind of value. Each kind is a struct
// with `type` (its name for a person), read() and write(); write() gives YAML flow text that read() turns
// into the same value, or "" if the value counts as not given.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/precision.h"
#include "engine/config/choices.h"
#include "engine/config/data_section.h"
#include "engine/config/optimizer_section.h"
#include "engine/config/report_section.h"
#include "engine/config/schedule_section.h"

namespace YAML {
class Node;
}

namespace strata::value {

/// A value that cannot be read: "expected a number, found 'x'". The loader adds the key and its place.
struct WrongValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How deep maps and lists may lie in one another.
constexpr std::int64_t kMaxDepth = 64;
[[noreturn]] void refuse_depth();

/// The text itself; throws WrongValue if it is not UTF-8, as JSON's texts and keys are.
const std::string& utf8(const std::string& text);

/// A key in a map without a table, or a path of such keys. Throws WrongValue if the text is not UTF-8, or if
/// its dump in YAML would be no key.
const std::string& map_key(const std::string& text);

/// The text of a scalar, in quotes or not: JSON has no other words. Throws WrongValue that names `expected`.
std::string word(const YAML::Node& node, std::string_view expected);
/// The text of a scalar that is not in quotes: a number, true or false. Throws WrongValue that names
/// `expected`.
std::string plain_text(const YAML::Node& node, std::string_view expected);
[[noreturn]] void refuse(const YAML::Node& node, std::string_view expected);

/// read(), whose error says where it happened.
template <typename Read>
auto read_within(const std::string& place, const Read& read) {
  try {
    return read();
  } catch (const WrongValue& error) {
    throw WrongValue(fmt::format("{}: {}", place, error.what()));
  }
}

/// Calls read(pattern, value) for the entries of a map from patterns, in their order. Throws WrongValue if
/// the node is no map, or has a pattern twice.
void for_each_pattern(const YAML::Node& node,
                      const std::function<void(const std::string&, const YAML::Node&)>& read);

template <std::integral T>
struct Integer {
  static std::string type() { return "integer"; }
  static T read(const YAML::Node& node) {
    const std::string text = plain_text(node, "an integer");
    T result = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (error != std::errc() || end != text.data() + text.size()) refuse(node, "an integer");
    return result;
  }
  static std::string write(T value) { return std::to_string(value); }
};

/// [a, b, …]; not given if empty.
struct IntegerList {
  static std::string type() { return "list of integers"; }
  static std::vector<std::int64_t> read(const YAML::Node& node);
  static std::string write(const std::vector<std::int64_t>& value);
};

/// [3, 100-102]; not given if empty.
struct StepSpans {
  static std::string type() { return "step or range, or list of them"; }
  static std::vector<StepSpan> read(const YAML::Node& node);
  static std::string write(const std::vector<StepSpan>& value);
};

struct Number {
  static std::string type() { return "number"; }
  static double read(const YAML::Node& node);
  static std::string write(double value);
};

/// [a, b]
struct NumberPair {
  static std::string type() { return "two numbers"; }
  static std::array<double, 2> read(const YAML::Node& node);
  static std::string write(const std::array<double, 2>& value);
};

struct Boolean {
  static std::string type() { return "true or false"; }
  static bool read(const YAML::Node& node);
  static std::string write(bool value) { return value ? "true" : "false"; }
};

/// Not given if empty.
struct Text {
  static std::string type() { return "text"; }
  static std::string read(const YAML::Node& node);
  static std::string write(const std::string& value);
};

/// A file or a folder; not given if empty. As all kinds of paths it is read by the rules of path_text.h, for
/// which read() takes the folder of the run file.
struct Path {
  static std::string type() { return "path"; }
  static std::string read(const YAML::Node& node, const std::string& run_file_folder);
  static std::string write(const std::string& value);
};

/// A folder's Path, or the word none, which reads as nothing.
struct FolderOrNone {
  static std::string type() { return "path or none"; }
  static std::string read(const YAML::Node& node, const std::string& run_file_folder);
  static std::string write(const std::string& value);
};

/// One text or a list of them; not given if empty.
struct TextList {
  static std::string type() { return "text or list of texts"; }
  static std::vector<std::string> read(const YAML::Node& node);
  static std::string write(const std::vector<std::string>& value);
};

/// One Path or a list of them; not given if empty.
struct PathList {
  static std::string type() { return "path or list of paths"; }
  static std::vector<std::string> read(const YAML::Node& node, const std::string& run_file_folder);
  static std::string write(const std::vector<std::string>& value);
};

/// As a PathList, of patterns for names of files.
struct FilePatterns {
  static std::string type() { return PathList::type(); }
  static std::vector<std::string> read(const YAML::Node& node, const std::string& run_file_folder);
  static std::string write(const std::vector<std::string>& value) { return PathList::write(value); }
};

/// Patterns of tensors' names, as a TextList.
struct PatternList {
  static std::string type() { return TextList::type(); }
  static std::vector<std::string> read(const YAML::Node& node);
  static std::string write(const std::vector<std::string>& value) { return TextList::write(value); }
};

/// [{tensors: '*.bias', weight_decay: 0}, …]; not given if empty.
struct TensorGroups {
  static std::string type() { return "list of maps"; }
  static std::vector<TensorGroup> read(const YAML::Node& node);
  static std::string write(const std::vector<TensorGroup>& value);
};

/// [[step, factor], …]; not given if empty.
struct SchedulePoints {
  static std::string type() { return "list of pairs"; }
  static std::vector<SchedulePoint> read(const YAML::Node& node);
  static std::string write(const std::vector<SchedulePoint>& value);
};

/// [{path: 'code/*.txt', weight: 0.3}, …]; not given if empty.
struct DataSources {
  static std::string type() { return "list of maps"; }
  static std::vector<DataSource> read(const YAML::Node& node, const std::string& run_file_folder);
  static std::string write(const std::vector<DataSource>& value);
};

/// {messages: conversations, …}: names for some of kRecordFields; not given if empty.
struct FieldNames {
  static std::string type() { return "map of texts"; }
  static std::map<std::string, std::string> read(const YAML::Node& node);
  static std::string write(const std::map<std::string, std::string>& value);
};

/// {q_proj: 8, …}: patterns of names and a value of the kind for each, in their order; not given if empty.
template <typename Kind>
struct ByPattern {
  using Value = decltype(Kind::read(std::declval<const YAML::Node&>()));
  static std::string type() { return fmt::format("map of patterns to {}s", Kind::type()); }
  static std::vector<std::pair<std::string, Value>> read(const YAML::Node& node) {
    std::vector<std::pair<std::string, Value>> values;
    for_each_pattern(node, [&](const std::string& pattern, const YAML::Node& value) {
      values.emplace_back(pattern, Kind::read(value));
    });
    return values;
  }
  static std::string write(const std::vector<std::pair<std::string, Value>>& value) {
    std::vector<std::string> entries;
    entries.reserve(value.size());
    for (const auto& [pattern, each] : value)
      entries.push_back(fmt::format("{}: {}", Text::write(pattern), Kind::write(each)));
    return entries.empty() ? "" : fmt::format("{{{}}}", fmt::join(entries, ", "));
  }
};

/// 2GiB, 512MB, 4096, unlimited.
struct Size {
  static std::string type() { return "size"; }
  static Bytes read(const YAML::Node& node);
  static std::string write(Bytes value);
};

/// 1GB/s or 1GB; `unlimited` is no rate.
struct Rate {
  static std::string type() { return "size per second"; }
  static std::optional<Bytes> read(const YAML::Node& node);
  static std::string write(Bytes value);
};

/// Any map, its plain scalars typed as in JSON (null, true, 1, 2.5; everything else text, in UTF-8); not
/// given if empty.
struct Json {
  static std::string type() { return "map"; }
  static nlohmann::json read(const YAML::Node& node);
  static std::string write(const nlohmann::json& value);
};
/// Any node as JSON. Its plain scalars have the types that JSON gives them, as in Json.
nlohmann::json to_json(const YAML::Node& node);

template <typename E>
std::optional<E> find_word(std::string_view text) {
  for (std::size_t i = 0; i < Words<E>::list.size(); ++i) {
    if (Words<E>::list[i] == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

/// One of Words<E>.
template <typename E>
struct Word {
  static std::string type() {
    std::string result;
    for (std::string_view word : Words<E>::list) result += (result.empty() ? "" : " or ") + std::string(word);
    return result;
  }
  static E read(const YAML::Node& node) {
    if (const std::optional<E> found = find_word<E>(word(node, type()))) return *found;
    refuse(node, type());
  }
  static std::string write(E value) { return std::string(word_of(value)); }
};

/// The name of a precision, or auto, which is nothing.
struct PrecisionOrAuto {
  static std::string type() {
    std::string result = "auto";
    for (const Precision& precision : kPrecisions) result += " or " + write(precision);
    return result;
  }
  static std::optional<Precision> read(const YAML::Node& node) {
    const std::string text = word(node, type());
    if (text == "auto") return std::nullopt;
    if (const std::optional<Precision> found = precision_named(text)) return found;
    refuse(node, type());
  }
  static std::string write(const std::optional<Precision>& value) {
    return value ? std::string(name_of(*value)) : "auto";
  }
};

}  // namespace strata::value
