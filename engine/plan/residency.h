// Residency: which values stay on a tier between two uses. Transfers of what stays are removed from the
// program.
#pragma once

#include "engine/plan/level.h"

namespace strata {

/// What a plain program needs of a level's near tier.
struct NearBytes {
  Bytes smallest = 0;  ///< of the hungriest single instruction, with all that is alive beside it: no budget
                       ///< below can run it
  Bytes largest_visit = 0;  ///< of values that come and go, in one instruction
};
NearBytes near_bytes(const Program& program, const Level& level);

/// Walks the plain program and keeps each value on the near tier until its next use while `near_bytes`
/// allows; when it does not, the value whose next use is furthest away leaves (Belady 1966: optimal for equal
/// sizes, and the accesses are known). Two visits that a kept value connects share one buffer; the fetch
/// between them goes, and the write-back too unless the home is read later. A fetch that then serves several
/// visits runs in every step in which one of them does. REQUIRES: near_bytes ≥ the smallest.
Program keep_resident(const Program& plain, const Level& level, Bytes near_bytes);

/// Removes buffers that no instruction touches; persistent ones stay.
Program without_unused_buffers(const Program& program);

/// Bytes that all transfers of one kind move in a step that does not save.
Bytes moved_bytes(const Program& program, Operation transfer);

}  // namespace strata
