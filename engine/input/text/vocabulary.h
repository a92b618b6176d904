// Tokens' texts and their ids, both ways. Immutable after construction; read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/input/text/json_field.h"

namespace strata::text {

class Vocabulary {
 public:
  /// A map from tokens to ids. Throws ConfigError if an id is none or is given twice.
  static Vocabulary read(const JsonField& field);
  /// Tokens whose ids are their places in the list; of equal ones the last has the text.
  explicit Vocabulary(std::vector<std::string> tokens);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// How many ids have a token; there may be gaps between them.
  std::size_t size() const { return size_; }
  /// One more than the largest id.
  std::int32_t end() const { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<std::int32_t> id(std::string_view token) const;
  /// Nothing if no token has the id.
  std::optional<std::string_view> token(std::int32_t id) const;

 private:
  Vocabulary() = default;
  void index();

  std::size_t size_ = 0;
  std::vector<std::string> tokens_;                         ///< by id
  std::vector<bool> is_token_;                              ///< by id
  std::unordered_map<std::string_view, std::int32_t> ids_;  ///< refers to tokens_
};

}  // namespace strata::text
