// Text as wide as a terminal. Lines are broken between words, so that no terminal cuts one. Any thread may
// call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

/// `text` with lines of at most `columns`, broken at blanks. What follows a break stands under the line's
/// text: behind the first two or more blanks that separate columns of a table, if they end at `least_column`
/// or further right. A line without such blanks goes on below its own beginning. A word that is longer than
/// a line is not cut.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t least_column = 0);

/// What a line of standard output may have: the columns of its terminal; elsewhere `otherwise`.
std::size_t output_columns(std::size_t otherwise);

/// `text` as standard output shows it: wrapped to the width of a terminal, elsewhere unchanged.
std::string for_output(std::string text, std::size_t least_column = 0);

}  // namespace strata
