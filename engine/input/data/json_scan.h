// Where things end in a text that looks like JSON, without building or checking it: files may be larger than
// memory, cut short or no JSON at all. Plain functions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace strata {

/// Spaces, as JSON has them between values.
inline constexpr std::string_view kJsonSpaces = " \t\r\n";

/// Where the element ends that `text`, the rest of a JSON array, begins with: at the comma or the bracket
/// behind it; text.size(): nowhere. What the element says is not checked.
std::size_t find_element_end(std::string_view text);

/// Behind the bracket that closes the one `text` begins with; npos: nowhere. REQUIRES: an opening bracket.
std::size_t find_value_end(std::string_view text);

/// Whether the text begins as a JSON object with a key does, or would if it went on: { "key":
bool begins_object(std::string_view text);

struct RawMember {
  std::string_view key;    ///< without quotes
  std::string_view value;  ///< without spaces around it
};
/// The members of the object that `text` begins with, up to the first that is no JSON.
std::vector<RawMember> members_of(std::string_view text);

/// `text` without spaces in front.
std::string_view without_spaces(std::string_view text);

}  // namespace strata
