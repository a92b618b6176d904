// The keys of a config.json that Strata knows and need not read, because nothing that it computes depends on
// them. Every other key that no reader asks for is refused, so that none is overlooked. What transformers
// makes of each stands in tests/model/config_keys.json.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/model/architectures/architecture.h"

namespace strata {

struct InertKeys {
  std::string_view reason;
  std::vector<std::string_view> keys;
};

/// The keys that change nothing for any family, by the reason why.
std::span<const InertKeys> inert_keys();
/// Those that only GPT-2's config class, or only the others, has.
std::span<const InertKeys> inert_keys(Family family);

}  // namespace strata
