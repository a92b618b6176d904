// The keys that plan.search chooses where the run file leaves them out.
#pragma once

#include <array>
#include <string_view>

namespace strata {

inline constexpr std::array<std::string_view, 11> kSearchedKeys = {
    "train.microbatch",  "parallel.data",   "parallel.replicate", "parallel.shard",
    "parallel.context",  "parallel.tensor", "parallel.sequence",  "parallel.pipeline",
    "parallel.schedule", "parallel.chunks", "parallel.zero_stage"};

/// What parallel.stages lists are those of a number of stages and chunks.
constexpr bool is_of_stages(std::string_view key) {
  return key == "parallel.pipeline" || key == "parallel.chunks" || key == "parallel.schedule";
}

}  // namespace strata
