// Numbers as codes of few bits beside a scale for each block of neighbours: those of bitsandbytes. int8 is
// that of LLM.int8() (Dettmers et al., 2022): code · scale / 127. nf4 is NormalFloat of 4 bits (Dettmers et
// al., "QLoRA", 2023, appendix E): one of 16 quantiles of the normal distribution, times the scale. A block's
// scale is the largest magnitude in it. The conversions are constexpr, so that CUDA code may use them on
// either side.
#pragma once

#include <cstdint>

namespace strata {

enum class BlockFormat : std::uint8_t { int8, nf4 };

/// A number of nf4, of a code in [0, 16).
constexpr float normal_float4(std::uint8_t code) {
  constexpr float numbers[] = {-1.0F,
                               -0.6961928009986877F,
                               -0.5250730514526367F,
                               -0.39491748809814453F,
                               -0.28444138169288635F,
                               -0.18477343022823334F,
                               -0.09105003625154495F,
                               0.0F,
                               0.07958029955625534F,
                               0.16093020141124725F,
                               0.24611230194568634F,
                               0.33791524171829224F,
                               0.44070982933044434F,
                               0.5626170039176941F,
                               0.7229568362236023F,
                               1.0F};
  return numbers[code];
}

/// Bytes of the codes of `count` elements. Two codes of nf4 share a byte, the first in its high half.
constexpr std::int64_t code_bytes(BlockFormat format, std::int64_t count) {
  return format == BlockFormat::int8 ? count : (count + 1) / 2;
}

/// Code number `i` of those that begin at `codes`.
constexpr std::uint8_t code_at(BlockFormat format, const std::uint8_t* codes, std::int64_t i) {
  if (format == BlockFormat::int8) return codes[i];
  return static_cast<std::uint8_t>(i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 0xfU);
}

/// What stands for a code.
constexpr float block_number(BlockFormat format, std::uint8_t code, float scale) {
  if (format == BlockFormat::nf4) return normal_float4(code) * scale;
  return static_cast<float>(static_cast<std::int8_t>(code)) * scale * (1.0F / 127.0F);
}

}  // namespace strata
