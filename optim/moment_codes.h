// Moments in 8 bits: floats of one byte that share an exponent with their neighbours, as in the Microscaling
// formats (Rouhani et al. 2023), in groups of 16 numbers. They have 4 bits of mantissa, and 3 of exponent
// beside a sign. Squares, which have none, have 4 of exponent: a step divides by their roots, so small ones
// matter as much as large ones. A number is rounded at random, so that its mean is right, and only a group's
// exponent depends on its neighbours. A power of two is exact to multiply by. So numbers that were coded once
// keep their bits, and CUDA code, which uses the constexpr functions, makes the same ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "optim/stochastic_rounding.h"
#include "optim/update_rule.h"

namespace strata {

/// Elements of a group, and of a block: its codes, then its groups' exponents.
inline constexpr std::int64_t kCodedGroup = 16, kCodedBlock = 64;
inline constexpr Bytes kCodedBlockBytes = kCodedBlock + kCodedBlock / kCodedGroup;

/// Where the block of an element lies behind the first block.
constexpr Bytes coded_offset(std::int64_t element) {
  return element / kCodedBlock * kCodedBlockBytes;
}
constexpr Bytes coded_bytes(std::int64_t elements) {
  return coded_offset(elements + kCodedBlock - 1);
}

enum class MomentCodes : std::uint8_t { with_sign, squares };

constexpr MomentCodes codes_of(Moment moment) {
  return moment == Moment::exp_avg_sq || moment == Moment::square_avg || moment == Moment::sum
             ? MomentCodes::squares
             : MomentCodes::with_sign;
}

inline constexpr int kCodedMantissa = 4;
/// Bits of a float's mantissa that a code has not.
inline constexpr int kCodedCut = 23 - kCodedMantissa;

/// A code's magnitude counts the floats of few bits from 0 on. Those below 4, the first ones, lie as far
/// apart as those from 4 to 8. A group's largest number has the exponent kTop.
template <MomentCodes codes>
struct CodeForm {
  static constexpr bool kSign = codes == MomentCodes::with_sign;
  static constexpr std::uint32_t kMagnitude = kSign ? 0x7f : 0xff;  ///< of a code's bits
  static constexpr std::uint32_t kTop = 1 + (kMagnitude >> kCodedMantissa);
};

/// Exponents of groups are biased as floats' are. Groups of smaller numbers have the smallest one, so that
/// all factors are normal floats. What is not finite, or has no larger number of the form, makes its group
/// NaN.
inline constexpr std::uint32_t kSmallestGroupExponent = 32, kNanGroupExponent = 255;

/// The exponent of a group whose largest magnitude is `largest`. With it the group has codes on either side
/// of each number.
constexpr std::uint32_t group_exponent(float largest) {
  const std::uint32_t below_last_bit = (1U << kCodedCut) - 1;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(largest) + below_last_bit) >> 23;
  return std::clamp(exponent, kSmallestGroupExponent, kNanGroupExponent);
}

/// What rounds to nearest, instead of a number that is uniform in [0, 2^16).
inline constexpr std::uint32_t kRoundsToNearest = 0x8000;

/// `random` is uniform in [0, 2^16).
template <MomentCodes codes>
constexpr std::uint8_t encode_number(float value, std::uint32_t exponent, std::uint32_t random) {
  using Form = CodeForm<codes>;
  if (exponent == kNanGroupExponent) return 0;
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto factor = std::bit_cast<float>((254U + Form::kTop - exponent) << 23);
  const float scaled = std::bit_cast<float>(word & 0x7fffffffU) * factor;
  // Below 4 the line lies above the number, and its floats from 2 to 4 have the right steps.
  const auto bits = std::bit_cast<std::uint32_t>(std::max(scaled, scaled * 0.5F + 2));
  const std::uint32_t code = (bits + (random << (kCodedCut - 16))) >> kCodedCut & Form::kMagnitude;
  if (Form::kSign) return static_cast<std::uint8_t>(code | word >> 31 << 7);
  // A step divides by the root, so what is no zero must not become one.
  return static_cast<std::uint8_t>(code == 0 && scaled > 0 ? 1 : code);
}

template <MomentCodes codes>
constexpr float decode_number(std::uint8_t code, std::uint32_t exponent) {
  using Form = CodeForm<codes>;
  if (exponent == kNanGroupExponent) return std::bit_cast<float>(0x7fc00000U);
  const auto number = std::bit_cast<float>(((code & Form::kMagnitude) << kCodedCut) + (128U << 23));
  const float scaled = std::min(number, number + number - 4);
  const std::uint32_t factor = (std::max(exponent, kSmallestGroupExponent) - Form::kTop) << 23;
  const std::uint32_t sign = Form::kSign ? std::uint32_t{code} >> 7 << 31 : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled * std::bit_cast<float>(factor)) | sign);
}

/// What rounds a moment's values: by the rule's number of the moment, random_half() of each of `words`, which
/// stand for the elements. The numbers of several moments share them.
struct MomentRounding {
  const std::uint32_t* words;
  int number;
};

/// mix_bits() of `counter` and its successors.
void hash_elements(std::uint32_t counter, std::span<std::uint32_t> words);

/// Elements [first, first + out.size()) of those whose first block is at `blocks`.
void decode_moment(MomentCodes codes, const std::byte* blocks, std::int64_t first, std::span<float> out);

/// Writes whole blocks; behind the values come zeros. Rounds to nearest if no rounding is given.
void encode_moment(MomentCodes codes, std::span<const float> values, std::byte* blocks,
                   const std::optional<MomentRounding>& rounding = std::nullopt);

/// The same in plain scalar code: the oracle.
void decode_moment_reference(MomentCodes codes, const std::byte* blocks, std::int64_t first,
                             std::span<float> out);
void encode_moment_reference(MomentCodes codes, std::span<const float> values, std::byte* blocks,
                             const std::optional<MomentRounding>& rounding = std::nullopt);

}  // namespace strata
