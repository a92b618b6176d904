// What a text is cut at, and what becomes of the parts: the patterns and behaviors of the file's Split,
// Punctuation and Replace. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/text/json_field.h"
#include "engine/input/text/regex.h"

namespace strata::text {

/// A stretch of a text that matches, or one between two matches.
struct Stretch {
  std::size_t begin, end;
  bool is_match;
};

/// What becomes of matches; "a-b" cut at "-" is: removed a b; isolated a - b; merged_with_previous a- b;
/// merged_with_next a -b; contiguous like isolated, but matches in a row are one part.
enum class SplitBehavior : std::uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

/// A fixed text or a regular expression.
class Pattern {
 public:
  /// {"String": ...} or {"Regex": ...}.
  explicit Pattern(const JsonField& field);

  /// The whole text as stretches, in order.
  void find(std::string_view text, std::vector<Stretch>& stretches) const;
  /// Throws ConfigError rather than make `out` larger than `most_bytes`.
  void append_replaced(std::string_view text, std::string_view content, std::string& out,
                       std::size_t most_bytes) const;

 private:
  void for_each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& use) const;

  std::string literal_;
  std::optional<Regex> regex_;
};

SplitBehavior read_behavior(const JsonField& field);

/// The whole text as stretches that each character begins or ends for which `is_match` says so.
void find_characters(std::string_view text, const std::function<bool(char32_t)>& is_match,
                     std::vector<Stretch>& stretches);

/// Joins stretches as the behavior says and calls `keep(begin, end)` for those that stay.
void apply(SplitBehavior behavior, std::vector<Stretch>& stretches,
           const std::function<void(std::size_t, std::size_t)>& keep);

}  // namespace strata::text
