// Metaspace: spaces as a visible mark, "▁" mostly, which pre-tokenizer and decoder share. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/input/text/json_field.h"

namespace strata::text {

class Metaspace {
 public:
  /// Throws ConfigError for settings that contradict each other or are not supported.
  explicit Metaspace(const JsonField& field);

  char32_t mark() const { return mark_; }
  bool split() const { return split_; }

  /// The text with marks in place of spaces, and one before it where the file asks for that.
  void append_marked(std::string_view text, bool is_first, std::string& out) const;
  /// A token's text with spaces again; the first token's marks are none if the file puts one before a text.
  std::string unmarked(std::string_view token, bool is_first) const;

 private:
  enum class Prepend : std::uint8_t { always, first, never };

  char32_t mark_;
  std::string mark_text_;
  Prepend prepend_ = Prepend::always;
  bool split_;
};

}  // namespace strata::text
