// Compiled once per instruction set by foreach_target, as update_kernel.cpp: the same operations on all, so
// the same bits.
#include "optim/moment_codes.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/nth.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/moment_codes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include <hwy/highway.h>

#include "base/storage_vectors-inl.h"
#include "optim/state_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// At most a group.
using GroupTag = hn::CappedTag<float, kCodedGroup>;
using GroupWords = WordsOf<GroupTag>;
using GroupIntegers = hn::RebindToSigned<GroupTag>;
using GroupCodes = hn::Rebind<std::uint8_t, GroupTag>;

/// Calls body(index of a vector's first element in the group).
template <class Body>
HWY_INLINE void for_vectors(const Body& body) {
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(GroupTag()));
  static_assert(kCodedGroup % kLanes == 0);
  for (std::int64_t i = 0; i < kCodedGroup; i += kLanes) body(i);
}

/// As decode_number(), of a group. REQUIRES: the exponent is no NaN's.
template <MomentCodes codes>
HWY_INLINE void decode_group(const std::uint8_t* group, std::uint32_t exponent, float* out) {
  using Form = CodeForm<codes>;
  const GroupTag d;
  const GroupWords words;
  const auto factor =
      hn::BitCast(d, hn::Set(words, (std::max(exponent, kSmallestGroupExponent) - Form::kTop) << 23));
  for_vectors([&](std::int64_t i) HWY_ATTR {
    const auto code = hn::PromoteTo(words, hn::LoadU(GroupCodes(), group + i));
    const auto magnitude = Form::kSign ? hn::And(code, hn::Set(words, Form::kMagnitude)) : code;
    const auto number =
        hn::BitCast(d, hn::Add(hn::ShiftLeft<kCodedCut>(magnitude), hn::Set(words, 128U << 23)));
    const auto scaled = hn::Min(number, hn::Sub(hn::Add(number, number), hn::Set(d, 4.0F)));
    auto value = hn::Mul(scaled, factor);
    if constexpr (Form::kSign)
      value = hn::Or(value, hn::BitCast(d, hn::ShiftLeft<31>(hn::ShiftRight<7>(code))));
    hn::StoreU(value, d, out + i);
  });
}

/// The largest magnitude; infinite or NaN if one is.
HWY_INLINE float largest_of_group(const float* values) {
  const GroupIntegers integers;
  auto largest = hn::Zero(integers);
  for_vectors([&](std::int64_t i) HWY_ATTR {
    const auto word = hn::BitCast(integers, hn::LoadU(GroupTag(), values + i));
    largest = hn::Max(largest, hn::And(word, hn::Set(integers, 0x7fffffff)));
  });
  return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(integers, largest)));
}

/// What rounds the elements from `first` on; `number` of the moment, or -1 for what rounds to nearest,
/// without words.
template <int number>
HWY_INLINE hn::Vec<GroupWords> random_halves([[maybe_unused]] const std::uint32_t* words,
                                             [[maybe_unused]] std::int64_t first) {
  const GroupWords d;
  if constexpr (number < 0) {
    return hn::Set(d, kRoundsToNearest);
  } else {
    auto word = hn::LoadU(d, words + first);
    if constexpr (number > 1) word = mixed_bits(GroupTag(), word);
    return number == 1 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(d, 0xffffU));
  }
}

/// As encode_number(), of the group that begins with value `first`. If the exponent is NaN's, the codes mean
/// nothing.
template <MomentCodes codes, int number>
HWY_INLINE void encode_group(const float* values, const std::uint32_t* random_words, std::int64_t first,
                             std::uint32_t exponent, std::uint8_t* group) {
  using Form = CodeForm<codes>;
  const GroupTag d;
  const GroupWords words;
  const GroupIntegers integers;
  const auto factor = hn::BitCast(d, hn::Set(words, (254U + Form::kTop - exponent) << 23));
  for_vectors([&](std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, values + first + i);
    const auto scaled = hn::Mul(hn::Abs(value), factor);
    const auto line = hn::Add(hn::Mul(scaled, hn::Set(d, 0.5F)), hn::Set(d, 2.0F));
    const auto bits = hn::BitCast(words, hn::Max(scaled, line));
    const auto random = hn::ShiftLeft<kCodedCut - 16>(random_halves<number>(random_words, first + i));
    auto code = hn::And(hn::ShiftRight<kCodedCut>(hn::Add(bits, random)), hn::Set(words, Form::kMagnitude));
    if constexpr (Form::kSign) {
      code = hn::Or(code, hn::ShiftLeft<7>(hn::ShiftRight<31>(hn::BitCast(words, value))));
    } else {
      const auto is_more = hn::RebindMask(words, hn::Gt(scaled, hn::Zero(d)));
      code = hn::Max(code, hn::IfThenElseZero(is_more, hn::Set(words, 1U)));
    }
    hn::StoreU(hn::DemoteTo(GroupCodes(), hn::BitCast(integers, code)), GroupCodes(), group + i);
  });
}

template <MomentCodes codes>
void decode_block(const std::uint8_t* block, float* out) {
  for (std::int64_t g = 0; g < kCodedBlock / kCodedGroup; ++g) {
    const std::uint32_t exponent = block[kCodedBlock + g];
    float* const group = out + g * kCodedGroup;
    if (exponent == kNanGroupExponent) {
      std::fill_n(group, kCodedGroup, decode_number<codes>(0, exponent));
    } else {
      decode_group<codes>(block + g * kCodedGroup, exponent, group);
    }
  }
}

/// Encodes the block that begins with value `first`.
template <MomentCodes codes, int number>
void encode_block(const float* values, const std::uint32_t* random_words, std::int64_t first,
                  std::uint8_t* block) {
  constexpr std::int64_t kGroups = kCodedBlock / kCodedGroup;
  std::array<std::uint32_t, kGroups> exponents;
  bool is_finite = true;
  for (std::int64_t g = 0; g < kGroups; ++g) {
    std::uint32_t& exponent = nth(exponents, g);
    exponent = group_exponent(largest_of_group(values + first + g * kCodedGroup));
    block[kCodedBlock + g] = static_cast<std::uint8_t>(exponent);
    is_finite = is_finite && exponent != kNanGroupExponent;
  }
  for (std::int64_t g = 0; g < kGroups; ++g) {
    encode_group<codes, number>(values, random_words, first + g * kCodedGroup, nth(exponents, g),
                                block + g * kCodedGroup);
  }
  if (HWY_LIKELY(is_finite)) return;
  for (std::int64_t g = 0; g < kGroups; ++g) {
    if (nth(exponents, g) == kNanGroupExponent)
      std::fill_n(block + g * kCodedGroup, kCodedGroup, std::uint8_t{0});
  }
}

template <MomentCodes codes>
void decode_all(const std::uint8_t* blocks, std::int64_t count, float* out) {
  for (std::int64_t b = 0; b < count; ++b)
    decode_block<codes>(blocks + b * kCodedBlockBytes, out + b * kCodedBlock);
}

template <MomentCodes codes, int number>
void encode_all(const float* values, const std::uint32_t* random_words, std::int64_t count,
                std::uint8_t* blocks) {
  for (std::int64_t first = 0; first < count * kCodedBlock; first += kCodedBlock)
    encode_block<codes, number>(values, random_words, first, blocks + coded_offset(first));
}

void decode_blocks(MomentCodes codes, const std::uint8_t* blocks, std::int64_t count, float* out) {
  codes == MomentCodes::squares ? decode_all<MomentCodes::squares>(blocks, count, out)
                                : decode_all<MomentCodes::with_sign>(blocks, count, out);
}

template <MomentCodes codes>
void encode_rounded(const float* values, const std::optional<MomentRounding>& rounding, std::int64_t count,
                    std::uint8_t* blocks) {
  const std::uint32_t* words = rounding ? rounding->words : nullptr;
  switch (rounding ? rounding->number : -1) {
    case -1:
      return encode_all<codes, -1>(values, words, count, blocks);
    case 0:
      return encode_all<codes, 0>(values, words, count, blocks);
    case 1:
      return encode_all<codes, 1>(values, words, count, blocks);
    default:
      return encode_all<codes, 2>(values, words, count, blocks);
  }
}

void encode_blocks(MomentCodes codes, const float* values, const std::optional<MomentRounding>& rounding,
                   std::int64_t count, std::uint8_t* blocks) {
  codes == MomentCodes::squares ? encode_rounded<MomentCodes::squares>(values, rounding, count, blocks)
                                : encode_rounded<MomentCodes::with_sign>(values, rounding, count, blocks);
}

/// REQUIRES: whole blocks.
void hash_blocks(std::uint32_t counter, std::int64_t count, std::uint32_t* words) {
  const GroupWords d;
  for (std::int64_t first = 0; first < count * kCodedBlock; first += kCodedGroup) {
    for_vectors([&](std::int64_t i) HWY_ATTR {
      const auto start = hn::Set(d, counter + static_cast<std::uint32_t>(first + i));
      hn::StoreU(mixed_bits(GroupTag(), hn::Add(start, hn::Iota(d, 0))), d, words + first + i);
    });
  }
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(decode_blocks);
HWY_EXPORT(encode_blocks);
HWY_EXPORT(hash_blocks);

using BlockValues = std::array<float, kCodedBlock>;

struct PlainBlocks {
  template <MomentCodes codes>
  static void decode_as(const std::uint8_t* block, float* out) {
    for (std::int64_t i = 0; i < kCodedBlock; ++i)
      out[i] = decode_number<codes>(block[i], block[kCodedBlock + i / kCodedGroup]);
  }
  static void decode(MomentCodes codes, const std::uint8_t* blocks, std::int64_t count, float* out) {
    for (; count > 0; --count, blocks += kCodedBlockBytes, out += kCodedBlock) {
      codes == MomentCodes::squares ? decode_as<MomentCodes::squares>(blocks, out)
                                    : decode_as<MomentCodes::with_sign>(blocks, out);
    }
  }

  template <MomentCodes codes>
  static void encode_as(const float* values, const std::optional<MomentRounding>& rounding,
                        std::int64_t first, std::uint8_t* block) {
    for (std::int64_t i = 0; i < kCodedBlock; ++i) {
      const std::int64_t g = i / kCodedGroup;
      if (i % kCodedGroup == 0) {
        std::uint32_t largest = 0;
        for (const float value : std::span(values + i, kCodedGroup))
          largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
        block[kCodedBlock + g] = static_cast<std::uint8_t>(group_exponent(std::bit_cast<float>(largest)));
      }
      const std::uint32_t random =
          rounding ? random_half(rounding->words[first + i], rounding->number) : kRoundsToNearest;
      block[i] = encode_number<codes>(values[i], block[kCodedBlock + g], random);
    }
  }
  static void encode(MomentCodes codes, const float* values, const std::optional<MomentRounding>& rounding,
                     std::int64_t count, std::uint8_t* blocks) {
    for (std::int64_t b = 0; b < count; ++b, blocks += kCodedBlockBytes, values += kCodedBlock) {
      codes == MomentCodes::squares
          ? encode_as<MomentCodes::squares>(values, rounding, b * kCodedBlock, blocks)
          : encode_as<MomentCodes::with_sign>(values, rounding, b * kCodedBlock, blocks);
    }
  }
};

struct VectorBlocks {
  static void decode(MomentCodes codes, const std::uint8_t* blocks, std::int64_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(decode_blocks)(codes, blocks, count, out);
  }
  static void encode(MomentCodes codes, const float* values, const std::optional<MomentRounding>& rounding,
                     std::int64_t count, std::uint8_t* blocks) {
    HWY_DYNAMIC_DISPATCH(encode_blocks)(codes, values, rounding, count, blocks);
  }
};

template <typename Blocks>
void decode(MomentCodes codes, const std::byte* blocks, std::int64_t first, std::span<float> out) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(blocks) + coded_offset(first);
  const auto decode_part = [&](std::int64_t before, std::int64_t count) {
    BlockValues all;
    Blocks::decode(codes, from, 1, all.data());
    std::copy_n(all.begin() + before, count, out.begin());
    from += kCodedBlockBytes;
    out = out.subspan(static_cast<std::size_t>(count));
  };
  if (const std::int64_t before = first % kCodedBlock; before > 0)
    decode_part(before, std::min(kCodedBlock - before, std::ssize(out)));
  const std::int64_t whole = std::ssize(out) / kCodedBlock;
  Blocks::decode(codes, from, whole, out.data());
  from += whole * kCodedBlockBytes;
  out = out.subspan(static_cast<std::size_t>(whole * kCodedBlock));
  if (!out.empty()) decode_part(0, std::ssize(out));
}

template <typename Blocks>
void encode(MomentCodes codes, std::span<const float> values, std::byte* blocks,
            std::optional<MomentRounding> rounding) {
  auto* to = reinterpret_cast<std::uint8_t*>(blocks);
  const std::int64_t whole = std::ssize(values) / kCodedBlock, first = whole * kCodedBlock;
  Blocks::encode(codes, values.data(), rounding, whole, to);
  if (first == std::ssize(values)) return;
  BlockValues last = {};
  const auto behind = values.subspan(static_cast<std::size_t>(first));
  std::ranges::copy(behind, last.begin());
  std::array<std::uint32_t, kCodedBlock> words = {};
  if (rounding) {
    std::copy_n(rounding->words + first, behind.size(), words.begin());
    rounding->words = words.data();
  }
  Blocks::encode(codes, last.data(), rounding, 1, to + coded_offset(first));
}

}  // namespace

void hash_elements(std::uint32_t counter, std::span<std::uint32_t> words) {
  const std::int64_t whole = std::ssize(words) / kCodedBlock;
  HWY_DYNAMIC_DISPATCH(hash_blocks)(counter, whole, words.data());
  for (std::int64_t i = whole * kCodedBlock; i < std::ssize(words); ++i)
    nth(words, i) = mix_bits(counter + static_cast<std::uint32_t>(i));
}

void decode_moment(MomentCodes codes, const std::byte* blocks, std::int64_t first, std::span<float> out) {
  decode<VectorBlocks>(codes, blocks, first, out);
}

void encode_moment(MomentCodes codes, std::span<const float> values, std::byte* blocks,
                   const std::optional<MomentRounding>& rounding) {
  encode<VectorBlocks>(codes, values, blocks, rounding);
}

void decode_moment_reference(MomentCodes codes, const std::byte* blocks, std::int64_t first,
                             std::span<float> out) {
  decode<PlainBlocks>(codes, blocks, first, out);
}

void encode_moment_reference(MomentCodes codes, std::span<const float> values, std::byte* blocks,
                             const std::optional<MomentRounding>& rounding) {
  encode<PlainBlocks>(codes, values, blocks, rounding);
}

}  // namespace strata
#endif
