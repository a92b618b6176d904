// Internal to config: what the tables of keys are written with.
#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"
#include "engine/config/value.h"

namespace strata {

/// What is wrong with one value; empty: nothing.
template <typename T>
using ValueCheck = std::string (*)(const T&);

/// Bounds all that is counted: more than any run has, and few enough that sums and products of two with a
/// size do not wrap around.
constexpr std::int64_t kLargestCount = std::int64_t{1} << 40;

inline std::string no_larger_count(std::int64_t value) {
  return value > kLargestCount ? fmt::format("must be at most {}", kLargestCount) : "";
}
inline std::string not_negative(const std::int64_t& value) {
  return value < 0 ? "must not be negative" : no_larger_count(value);
}
inline std::string at_least_one(const std::int64_t& value) {
  return value < 1 ? "must be at least 1" : no_larger_count(value);
}

inline std::string not_below_zero(const double& value) {
  return value < 0 ? "must not be negative" : "";
}
inline std::string fraction(const double& value) {
  return value < 0 || value > 1 ? "must be between 0 and 1" : "";
}
inline std::string proper_fraction(const double& value) {
  return value < 0 || value >= 1 ? "must be at least 0 and less than 1" : "";
}
inline std::string positive_fraction(const double& value) {
  return value <= 0 || value > 1 ? "must be greater than 0 and at most 1" : "";
}
inline std::string positive(const double& value) {
  return value <= 0 ? "must be greater than 0" : "";
}

/// Appends the keys of one section.
template <typename S, typename C = RunConfig>
class SectionKeys {
 public:
  SectionKeys(std::vector<KeyOf<C>>& keys, std::string path, S C::*section)
      : keys_(keys), path_(std::move(path)), section_(section) {}

  /// `Kind` is one of value.h's.
  template <typename Kind, typename M>
  KeyOf<C>& add(const std::string& name, M S::*member, const std::string& unit, const std::string& doc,
                ValueCheck<std::type_identity_t<M>> check = nullptr) {
    S C::*section = section_;
    KeyOf<C> key;
    key.path = path_ + "." + name;
    key.type = Kind::type();
    key.unit = unit;
    key.doc = doc;
    key.set = [=](C& config, const YAML::Node& node, [[maybe_unused]] const std::string& run_file_folder) {
      if constexpr (std::is_invocable_v<decltype(&Kind::read), const YAML::Node&, const std::string&>) {
        (config.*section).*member = Kind::read(node, run_file_folder);
      } else {
        (config.*section).*member = Kind::read(node);
      }
    };
    key.get = [=](const C& config) -> std::string {
      const M& field = (config.*section).*member;
      if constexpr (std::is_invocable_v<decltype(&Kind::write), const M&>) {
        return Kind::write(field);
      } else {
        return field ? Kind::write(*field) : "";
      }
    };
    key.check = [=, get = key.get](const C& config) -> std::string {
      const std::string problem = check == nullptr ? "" : check((config.*section).*member);
      return problem.empty() ? "" : fmt::format("{}, not {}", problem, get(config));
    };
    return keys_.emplace_back(std::move(key));
  }

 private:
  std::vector<KeyOf<C>>& keys_;
  std::string path_;
  S C::*section_;
};

/// Adds a check that looks at other keys too, after the key's own.
template <typename C>
void require(KeyOf<C>& key, const std::vector<std::string>& related,
             std::type_identity_t<std::function<std::string(const C&)>> check) {
  key.related = related;
  key.check = [own = key.check, check = std::move(check)](const C& config) {
    std::string problem = own(config);
    return problem.empty() ? check(config) : problem;
  };
}

/// A check that a key which some of the section's types have was given to none of the others.
template <typename S, typename T>
auto belongs_to(S RunConfig::*section, std::string_view key_of_type, std::vector<T> types, auto S::*field) {
  return [=](const RunConfig& c) -> std::string {
    const S& given = c.*section;
    if (std::ranges::find(types, given.type) != types.end() || given.*field == S().*field) return "";
    std::vector<std::string_view> words;
    words.reserve(types.size());
    for (const T type : types) words.push_back(word_of(type));
    return fmt::format("belongs to {} {}, not {}", key_of_type, fmt::join(words, " or "),
                       word_of(given.type));
  };
}

/// What a run learns: model, data, train, optimizer.
void add_training_keys(std::vector<Key>& keys);
/// Those of optimizer and its schedule among them.
void add_optimizer_keys(std::vector<Key>& keys);
/// What it runs on and leaves behind: parallel, memory, plan, device, checkpoint, report.
void add_machine_keys(std::vector<Key>& keys);

}  // namespace strata
