// What a tokenizer may take for a text. Its file comes from anybody, so that what grows with more than the
// text ends in a sentence. The bounds are far beyond what any real tokenizer takes. Plain functions.
#pragma once

#include <cstddef>

namespace strata::text {

/// The most bytes that normalizers and pre-tokenizers may make of a text of `bytes`.
std::size_t most_bytes_from(std::size_t bytes);

/// Throws ConfigError if `made` bytes are more than `most`, which are what most_bytes_from() gives.
void check_growth(std::size_t made, std::size_t most);

/// Steps of a search for tokens: bytes that are compared.
std::size_t most_steps_for(std::size_t bytes);

/// Throws ConfigError if a search in a text of `bytes` bytes takes more steps than most_steps_for().
void check_steps(std::size_t steps, std::size_t bytes);

}  // namespace strata::text
