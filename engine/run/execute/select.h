// Selection by successive halving (Jamieson and Talwalkar 2016): behind each rung the best of the models go
// on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/selection.h"

namespace strata {

/// By model, given their losses, why it ends at the rung: empty for the ⌈keep · n⌉ best of the n that take
/// part, and for those that do not (no loss). Of equal losses the first is better, and one that is not finite
/// is the worst. `failed` more models count among the n, as its last: they could not be saved.
std::vector<std::string> outdone(const Selection& selection, std::int64_t step,
                                 const std::vector<std::optional<double>>& losses, std::size_t failed = 0);

}  // namespace strata
