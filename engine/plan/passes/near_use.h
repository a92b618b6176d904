// What a plain program has on a pair's near tier: which buffers come and go, and the bytes at each
// instruction.
#pragma once

#include <vector>

#include "engine/plan/passes/tier_pair.h"

namespace strata {

struct NearUse {
  /// Per buffer: it is fetched to the near tier or written back from there, for one use. The tier's other
  /// buffers stay where they are; what is copied to or from them is copied.
  std::vector<bool> is_visitor;
  /// Per buffer: it is gathered on the near tier, is written by nothing else and goes after its last use.
  std::vector<bool> is_gathered;
  /// Per instruction: bytes of visitors that it touches, and live bytes that are no visitors'.
  std::vector<Bytes> visiting, staying;
};
NearUse find_near_use(const Program& plain, const TierPair& pair);

}  // namespace strata
