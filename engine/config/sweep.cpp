#include "engine/config/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/model_names.h"
#include "engine/config/nearest.h"

namespace strata {
namespace {

/// A name has more than three letters per key.
constexpr std::size_t kMostSweptKeys = 32;

bool is_key(const std::string& path) {
  return find_path(config_keys(), path) != nullptr || path.starts_with("model.config.");
}

class SweepReader {
 public:
  explicit SweepReader(const Source& source) : source_(source) {}

  void read(const std::string& section, const YAML::Node& map) {
    for (const auto& entry : map) {
      const std::string place = source_.place(entry.first.Mark());
      if (!entry.first.IsScalar()) fail(place, "a key must be a word");
      const std::string path = (section.empty() ? "" : section + ".") + entry.first.Scalar();
      const bool has_keys = find_path(config_sections(), path) != nullptr || path == "model.config";
      if (has_keys && entry.second.IsMap()) {
        read(path, entry.second);
      } else {
        add(path, place, entry.second);
      }
    }
  }

  std::vector<SweptKey> named() {
    std::vector<std::string> paths;
    paths.reserve(keys_.size());
    for (const SweptKey& key : keys_) paths.push_back(key.path);
    const std::vector<std::string> words = last_words(paths);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      for (SweptValue& value : keys_[i].values) value.name = words[i] + "=" + value.name;
    }
    return std::move(keys_);
  }

 private:
  void add(const std::string& path, const std::string& place, const YAML::Node& values) {
    if (find_path(config_sections(), path) != nullptr)
      fail(place, fmt::format("{} is a section; sweep its keys ({})", path, keys_in(path)));
    if (!is_key(path)) fail(place, fmt::format("unknown key '{}': {}", path, suggest_key(path)));
    for (const SweptKey& other : keys_) {
      if (overlap(other.path, path))
        fail(place, path == other.path ? fmt::format("'{}' is given twice", path)
                                       : fmt::format("'{}' and '{}' overlap", path, other.path));
    }
    if (!values.IsSequence() || values.size() == 0)
      fail(place, fmt::format("{}: expected a list of values, as [1, 2]", path));
    if (keys_.size() == kMostSweptKeys)
      fail(place, fmt::format("a sweep has at most {} keys", kMostSweptKeys));
    SweptKey key{path, place, {}};
    key.values.reserve(values.size());
    for (const YAML::Node& value : values)
      key.values.push_back({value_in_name(value), {Origin::sweep, source_, path, value, value.Mark()}});
    keys_.push_back(std::move(key));
  }

  const Source& source_;
  std::vector<SweptKey> keys_;
};

}  // namespace

std::vector<SweptKey> read_sweep(const YAML::Node& sweep, const Source& source) {
  SweepReader reader(source);
  reader.read("", sweep);
  return reader.named();
}

std::vector<std::vector<const SweptValue*>> product(const std::vector<SweptKey>& keys) {
  std::vector<std::vector<const SweptValue*>> result(1);
  for (const SweptKey& key : keys) {
    std::vector<std::vector<const SweptValue*>> longer;
    longer.reserve(result.size() * key.values.size());
    for (const auto& combination : result) {
      for (const SweptValue& value : key.values) {
        longer.push_back(combination);
        longer.back().push_back(&value);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::int64_t combinations(const std::vector<SweptKey>& keys, std::int64_t most) {
  std::int64_t count = 1;
  for (const SweptKey& key : keys)
    count = std::min(most, count * std::min(most, static_cast<std::int64_t>(key.values.size())));
  return count;
}

bool is_within(const std::string& key, const std::string& of) {
  return key.starts_with(of) && (key.size() == of.size() || key[of.size()] == '.');
}

bool overlap(const std::string& a, const std::string& b) {
  return is_within(a, b) || is_within(b, a);
}

}  // namespace strata
