// Classes of characters in regular expressions, \p{L} say. Oniguruma has tables of the Unicode version that
// it was released with, 14 in Debian 12, so it is given those of the version that the original is built with.
#pragma once

namespace strata::text {

/// Defines the general categories that patterns of tokenizers name, and Han, as Unicode 16 has them. Call it
/// once, after onig_initialize() and before the first pattern.
void define_regex_properties();

}  // namespace strata::text
