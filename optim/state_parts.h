// How updates on the CPU go through a state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/nth.h"
#include "base/task_arena.h"
#include "optim/moment_codes.h"
#include "optim/optimizer_state.h"
#include "optim/stochastic_rounding.h"

namespace strata {

/// Calls body(part) for parts of the state, on the arena that the caller runs in. No two parts share a block
/// of a coded moment.
template <typename Body>
void for_chunks(const OptimizerState& state, const Body& body) {
  // 1.75 MiB of traffic, long enough to hide the scheduler, short enough to balance threads.
  constexpr std::int64_t kChunk = 64 * 1024;
  const std::int64_t before = state.first % kCodedBlock;
  for_ranges((before + state.elements + kChunk - 1) / kChunk, 1,
             [&](std::int64_t begin, std::int64_t end, int) {
               const std::int64_t first = std::max<std::int64_t>(begin * kChunk - before, 0);
               const std::int64_t last = std::min(end * kChunk - before, state.elements);
               body(state.part(first, last - first));
             });
}

/// How codes become floats and floats codes.
struct MomentCoder {
  decltype(&decode_moment) decode = &decode_moment;
  decltype(&encode_moment) encode = &encode_moment;
};
inline constexpr MomentCoder kPlainCoder = {&decode_moment_reference, &encode_moment_reference};

/// Calls body(part) for parts of the state, in order. If moments are coded, those of the rule that are
/// `changed` are floats while the body runs, and are then rounded by `update_key`, also a slow mean in bf16.
/// What a block holds besides the state's elements stays: numbers that were coded once keep their bits,
/// unless the exponent grows.
template <typename Body>
void with_decoded(const OptimizerState& state, Moments changed, std::uint32_t update_key,
                  const MomentCoder& coder, const Body& body) {
  if (state.format.moments != MomentFormat::coded || changed.count() == 0) return body(state);
  constexpr std::int64_t kAtOnce = 8 * kCodedBlock;
  constexpr int kMost = 3;
  std::array<std::array<float, kAtOnce>, kMost> values;
  std::array<std::uint32_t, kAtOnce> words;
  const std::uint32_t counter = rounding_key(update_key, state.unit);
  const std::int64_t end = state.first + state.elements;
  for (std::int64_t at = state.first; at < end;) {
    const std::int64_t begin = at - at % kCodedBlock, last = std::min(begin + kAtOnce, end);
    const std::int64_t count = align_up(last - begin, kCodedBlock);
    OptimizerState part = state.part(at - state.first, last - at);
    part.format.moments = MomentFormat::fp32;
    std::array<std::byte*, kMost> stored = {};
    const auto is_coded = [&](int k) { return state.format.format_of(changed.at(k)) == MomentFormat::coded; };
    const auto slow = [&](int k) { return span_of(reinterpret_cast<bfloat16*>(stored[k]), last - at); };
    for (int k = 0; k < changed.count(); ++k) {
      void*& memory = part.of(changed.at(k));
      stored[k] = static_cast<std::byte*>(memory);
      if (is_coded(k)) {
        coder.decode(codes_of(changed.at(k)), stored[k], 0, slice(values[k], 0, count));
      } else {
        std::ranges::transform(slow(k), &nth(values[k], at - begin),
                               [](bfloat16 value) { return static_cast<float>(value); });
      }
      memory = &nth(values[k], at - begin);
    }
    body(part);
    hash_elements(counter + static_cast<std::uint32_t>(begin), slice(words, 0, count));
    for (int k = 0; k < changed.count(); ++k) {
      const MomentRounding rounding = {words.data(), k};
      if (is_coded(k)) {
        coder.encode(codes_of(changed.at(k)), slice(values[k], 0, count), stored[k], rounding);
        continue;
      }
      for (std::int64_t i = at; i < last; ++i) {
        slow(k)[static_cast<std::size_t>(i - at)] =
            round_stochastically(nth(values[k], i - begin), random_half(nth(words, i - begin), k));
      }
    }
    at = last;
  }
}

}  // namespace strata
