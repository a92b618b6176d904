// Which keys of the run file move a buffer: make it smaller, or bring it to another tier. What stands beside
// each buffer of a peak. Plain functions; any thread.
#pragma once

#include <span>
#include <string_view>

#include "engine/plan/program/program.h"

namespace strata {

struct Knob {
  std::string_view key;  ///< of the run file, with dots
  std::string_view how;  ///< what to do with it, and what that does: the end of a sentence
};

/// The knobs of buffers of a kind on a tier, the strongest first; never none. On the nvme tier also what
/// keeps them off it.
std::span<const Knob> knobs_of(BufferKind kind, Tier tier);

}  // namespace strata
