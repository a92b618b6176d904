// Which of several sources each sample of a run comes from, so that every stretch of the run holds all of
// them by their weights. Immutable; call from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Weights as whole numbers: source i has shares[i] of every sum(shares) samples. Exact if they are whole
/// multiples of a millionth of their sum, and rounded to that otherwise. Throws ConfigError for a weight that
/// is less than a millionth of the sum. REQUIRES: at least one weight, all finite and greater than 0.
std::vector<std::int64_t> shares_of(std::span<const double> weights);

/// After any number of samples n, the samples of each source differ from n · share / cycle by less than one.
/// Sample j of a source (from 0) may stand at floor(j · cycle / share) at the earliest, and must stand before
/// ceil((j + 1) · cycle / share). If several samples may stand at a place, the one with the earliest end
/// does. This rule meets all ends (Baruah, Cohen, Plaxton and Varvel, "Proportionate progress", Algorithmica
/// 15, 1996).
class Mixture {
 public:
  /// REQUIRES: shares are greater than 0, and their sum is at most kLongestCycle.
  explicit Mixture(std::vector<std::int64_t> shares);

  static constexpr std::int64_t kLongestCycle = 1'000'000;

  struct Place {
    std::size_t source = 0;
    std::int64_t index = 0;  ///< among the samples of that source
  };
  /// Where the `sample`-th sample of the run (from 0) comes from. Allocates nothing.
  Place place(std::int64_t sample) const;
  /// How many of the first `samples` are of the source.
  std::int64_t count(std::size_t source, std::int64_t samples) const;

  const std::vector<std::int64_t>& shares() const { return shares_; }
  std::int64_t cycle() const { return static_cast<std::int64_t>(places_.size()); }

 private:
  struct PlaceInCycle {
    std::uint32_t source, index;
  };

  std::vector<std::int64_t> shares_;
  std::vector<PlaceInCycle> places_;  ///< of each sample of a cycle
};

}  // namespace strata
