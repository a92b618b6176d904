// Places of tokens in their documents.
#pragma once

#include <cstdint>
#include <span>

#include "base/nth.h"

namespace strata {

/// Optional: where sequences have several documents, each token's place in its document. From one token of a
/// sequence to the next they count up, or begin anew with 0; at a sequence's first token they are 0.
using Places = std::span<const std::int32_t>;

/// That of a row of sequences one behind another: its place in its document, or in its sequence.
inline std::int64_t position_of(const Places& places, std::int64_t row, std::int64_t sequence) {
  return places.empty() ? row % sequence : nth(places, row);
}

}  // namespace strata
