// The key of a token, by which dropout chooses the elements that it drops (base/dropout.h). It is a number
// that follows from the seed and from the token's position in the run. So every layout of ranks and every
// resumed run has the same keys. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/context_part.h"
#include "base/random.h"

namespace strata {

class RowKeys {
 public:
  explicit RowKeys(std::uint64_t seed);

  /// Fills in the keys of the samples from `first` on, counted over the whole run; keys is [samples, rows],
  /// where a rank may have a part of each sequence. Never kWithoutDropout. Allocates nothing. REQUIRES:
  /// samples > 0 divides the keys.
  void fill(std::int64_t first, std::int64_t samples, std::span<std::int32_t> keys,
            const ContextPart& part = {}) const;

 private:
  CounterRandom random_;
};

}  // namespace strata
