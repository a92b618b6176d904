// A value of a tokenizer's file together with its place, so that its reader can refuse it in one sentence:
// "tokenizer.json: pre_tokenizer.pretokenizers[1].behavior: ...". A field refers to the JSON that it was made
// from, which must outlive it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata::text {

class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file, std::string place = {});

  const nlohmann::json& value() const { return *value_; }
  /// Throws ConfigError: the file, this place, and the reason.
  [[noreturn]] void refuse(std::string_view reason) const;
  /// Throws ConfigError: the file, a place below this one, such as "[3]", and the reason. Elements of a long
  /// list need no field of their own for it.
  [[noreturn]] void refuse_below(std::string_view below, std::string_view reason) const;

  /// The following throw ConfigError if this is no map, or the key is not there.
  JsonField at(std::string_view key) const;
  /// Nothing if the key is not there or is null.
  std::optional<JsonField> find(std::string_view key) const;
  /// Refuses a map that has a key which is not listed: what it would mean is not known.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  /// The following throw ConfigError if this is of another type.
  std::vector<JsonField> elements() const;
  std::string text() const;
  /// One character.
  char32_t character() const;
  bool flag() const;
  /// From 0 to 2^31 - 1, as ids are.
  std::int32_t id() const;

  /// What at() gives, or `otherwise` if the key is not there or null.
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;

 private:
  const nlohmann::json* value_;
  std::string file_, place_;
};

}  // namespace strata::text
