// The checkpoint section of a run file: where and when state is saved.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

struct CheckpointSection {
  std::string path;           ///< empty: no checkpoints
  std::int64_t every = 0;     ///< steps; 0: at the end only
  double every_minutes = 30;  ///< since the checkpoint before; 0: never for that
  std::int64_t keep = 2;
  std::int64_t wait_for_space_seconds = 3600;
  friend bool operator==(const CheckpointSection&, const CheckpointSection&) = default;
};

}  // namespace strata
