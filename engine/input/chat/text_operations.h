// What Python's str does, on UTF-8 whose positions are counted in code points. Plain functions on valid
// UTF-8 in linear time. Those with a meter refuse to make more than its limits allow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/input/chat/meter.h"

namespace strata::chat {

/// Where `part` begins in `text`, in bytes, from `from` on, or npos.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from);

/// Searches a text from its end.
class BackwardSearch {
 public:
  BackwardSearch(std::string_view text, std::string_view part);
  /// Where the last `part` begins that ends at byte `end` or before, or npos.
  std::size_t find(std::size_t end) const;

 private:
  std::string text_, part_;  ///< from their ends
};

/// `count` characters from the `begin`th on, each `step` behind the one before.
std::string every_character(std::string_view text, std::int64_t begin, std::int64_t step, std::int64_t count);

/// The bytes of text[begin:end], whose negative positions count from the end; npos as its begin if Python
/// would find nothing there, not even the empty text.
struct ByteRange {
  std::size_t begin, end;
};
ByteRange byte_range(std::string_view text, std::int64_t begin, std::int64_t end);

/// What str.isspace() says of a character.
bool is_python_space(char32_t c);

enum class Side : std::uint8_t { left, right, both };
/// Without the characters of `characters` at the given sides; without white space if there are none given.
std::string_view stripped(std::string_view text, const std::string* characters, Side side);

/// str.split() and rsplit() without a separator: at white space. At most `most` splits, from the left or the
/// right; all if it is negative.
std::vector<std::string_view> split_at_space(const Meter& meter, std::string_view text, std::int64_t most,
                                             Side side);
/// str.split() and rsplit() at `separator`, which is not empty. `most` and `side` are as in split_at_space().
std::vector<std::string_view> split_at(const Meter& meter, std::string_view text, std::string_view separator,
                                       std::int64_t most, Side side);
std::vector<std::string_view> split_lines(const Meter& meter, std::string_view text, bool keep_ends);

/// At most `most` replacements; all if it is negative.
std::string replaced(Meter& meter, std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t most);

/// How often `part` is in `text` without overlaps, as str.count() counts.
std::int64_t count_parts(std::string_view text, std::string_view part);

}  // namespace strata::chat
