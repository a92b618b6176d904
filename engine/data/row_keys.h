// What stands for a token of a run where elements are dropped (base/dropout.h): a number that follows from
// the seed and from which of the run's tokens it is, so every layout of ranks and every resumed run has the
// same. Immutable; any thread.
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
