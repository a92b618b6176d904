// Typed access to one JSON object, with an error sentence that names the source, the key, the value and what
// was expected. It remembers which keys were asked for, so that a reader of a strict file knows what it does
// not understand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata {

/// The value if it is a whole number: 8, 8.0 or 1e12. Nothing if it is none, or if it does not fit.
std::optional<std::int64_t> whole_number(const nlohmann::json& value);

/// A null is refused like any other value of the wrong type; if HF's None means something, ask is_null().
/// Everything throws ConfigError.
class JsonReader {
 public:
  /// `where` opens every error. REQUIRES: `object` outlives the reader. Throws if it is no JSON object.
  JsonReader(const nlohmann::json& object, std::string where);

  /// The key is there and is not null.
  bool has(const std::string& key);
  /// The key is there and is null.
  bool is_null(const std::string& key);
  const nlohmann::json& at(const std::string& key);

  /// In [minimum, maximum]; a float that is whole, such as 4096.0, is its integer. An absent key without a
  /// fallback throws.
  std::int64_t integer(const std::string& key, std::optional<std::int64_t> fallback, std::int64_t minimum,
                       std::int64_t maximum);
  /// An integer is as good as a float.
  double number(const std::string& key, std::optional<double> fallback);
  /// `count` of them.
  std::vector<double> positive_numbers(const std::string& key, std::int64_t count);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, std::optional<std::string> fallback);

  /// "<where>: <key> is <value>; <expected>".
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;
  /// "<where>: <sentence>".
  [[noreturn]] void fail(const std::string& sentence) const;
  /// What is asked of a key that changes nothing: it is no unknown one.
  void ignore(std::string_view key) { find(std::string(key)); }
  /// Throws for the first key that was never asked for, with the nearest one that was.
  void refuse_unknown_keys() const;

 private:
  /// Its value, null if that is null; nullptr if it is absent.
  const nlohmann::json* find(const std::string& key);
  [[noreturn]] void missing(const std::string& key) const;

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

}  // namespace strata
