// The order in which sequences are trained on: a new random permutation every epoch, or that of the data, as
// a pure function of seed and index. Nothing is stored, so any rank can ask for any sample and a resumed run
// needs only the number of samples it has consumed. Immutable; call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace strata {

/// A random bijection of [0, size), computed and not stored. It is a Feistel network on the smallest power of
/// two that holds `size`. The network's cycle is walked until the value is inside (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002). Fewer than two evaluations on average.
class Permutation {
 public:
  /// REQUIRES: 0 < size <= 2^62.
  Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch, std::size_t source = 0);

  /// REQUIRES: 0 <= index < size.
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  int low_bits_, high_bits_;
  CounterRandom random_;
};

/// Where sampling stands: all that a resumed run must agree on. Two runs with equal states go on with the
/// same data.
struct SamplerState {
  std::uint64_t seed = 0;
  std::int64_t sequences = 0;  ///< per epoch
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< of the next sample within the epoch
  bool shuffled = true;
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

class Sampler {
 public:
  /// `source` tells the orders of several sources of a run apart. REQUIRES: sequences > 0.
  Sampler(std::int64_t sequences, std::uint64_t seed, bool shuffled = true, std::size_t source = 0)
      : sequences_(sequences), seed_(seed), shuffled_(shuffled), source_(source) {}

  /// The sequence that is the `global_index`-th sample of the run from this source, counted over all epochs
  /// and ranks.
  std::int64_t sample(std::int64_t global_index) const;
  /// The state before sample `global_index` is drawn.
  SamplerState state(std::int64_t global_index) const;

 private:
  std::int64_t sequences_;
  std::uint64_t seed_;
  bool shuffled_;
  std::size_t source_;
};

}  // namespace strata
