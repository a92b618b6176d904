#include "engine/input/data/sampler.h"

#include <bit>

#include "base/hash.h"

namespace strata {
namespace {

constexpr int kEpochBits = 42;  // more epochs than any run has

std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch, std::size_t source)
    : size_(static_cast<std::uint64_t>(size)),
      random_(seed, hash_text("data/permutation") + static_cast<std::uint64_t>(epoch) +
                        (static_cast<std::uint64_t>(source) << kEpochBits)) {
  const int bits = std::bit_width(size_ - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  // Each half is changed by a function of the other, which the inverse could recompute: a bijection, whatever
  // random_ is. Ten rounds: small domains need more than the four that suffice for large ones.
  constexpr std::uint64_t kRounds = 10;
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (std::uint64_t round = 0; round < kRounds; round += 2) {
    low ^= random_.integer((round << 32) | high) & mask(low_bits_);
    high ^= random_.integer(((round + 1) << 32) | low) & mask(high_bits_);
  }
  return (high << low_bits_) | low;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  do value = encrypt(value);
  while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::int64_t Sampler::sample(std::int64_t global_index) const {
  if (!shuffled_) return global_index % sequences_;
  return Permutation(sequences_, seed_, global_index / sequences_, source_)(global_index % sequences_);
}

SamplerState Sampler::state(std::int64_t global_index) const {
  return {.seed = seed_,
          .sequences = sequences_,
          .epoch = global_index / sequences_,
          .position = global_index % sequences_,
          .shuffled = shuffled_};
}

}  // namespace strata
