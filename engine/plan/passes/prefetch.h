// Prefetch: fetches move up and write-backs move down as far as the budget allows, so that transfers run
// under other work.
#pragma once

#include "engine/plan/passes/tier_pair.h"

namespace strata {

/// Moves every fetch of the pair earlier and every write-back later (by at most the pair's slack) while the
/// bytes live on the near tier stay within `near_bytes`. Transfers of one direction keep their order; none
/// passes an instruction that it depends on. Other instructions keep their order.
Program prefetch(const Program& program, const TierPair& pair, Bytes near_bytes);

}  // namespace strata
