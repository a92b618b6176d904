// How far apart two words are: for naming the key that a user probably meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

/// Levenshtein's distance: the fewest insertions, deletions and substitutions that make `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace strata
