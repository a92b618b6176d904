// What tests of the optimizer store a state in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/nth.h"
#include "optim/moment_codes.h"
#include "optim/state_format.h"
#include "optim/stored_values.h"
#include "optim/update_rule.h"

namespace strata::test {

struct StateTypes {
  DType precision = DType::bf16;
  StateFormat format = {};
  UpdateRule rule = UpdateRule::adamw;
};
inline constexpr StateFormat kSplit = {.master = MasterFormat::split};
inline constexpr StateFormat kNoMaster = {.master = MasterFormat::none};
inline constexpr StateFormat kBf16Moments = {.moments = MomentFormat::bf16};
inline constexpr StateFormat kSmallSplit = {.master = MasterFormat::split, .moments = MomentFormat::bf16};
inline constexpr StateFormat kSmallNone = {.master = MasterFormat::none, .moments = MomentFormat::bf16};
inline constexpr StateFormat kCodedMoments = {.moments = MomentFormat::coded};
inline constexpr StateFormat kCodedSplit = {.master = MasterFormat::split, .moments = MomentFormat::coded};
inline constexpr StateFormat kSmallest = {.master = MasterFormat::none, .moments = MomentFormat::coded};
inline constexpr std::array<StateTypes, 14> kEveryFormat = {{{DType::fp32, {}},
                                                             {DType::fp32, kBf16Moments},
                                                             {DType::fp32, kCodedMoments},
                                                             {DType::fp16, {}},
                                                             {DType::fp16, kBf16Moments},
                                                             {DType::bf16, {}},
                                                             {DType::bf16, kSplit},
                                                             {DType::bf16, kNoMaster},
                                                             {DType::bf16, kBf16Moments},
                                                             {DType::bf16, kSmallSplit},
                                                             {DType::bf16, kSmallNone},
                                                             {DType::bf16, kCodedMoments},
                                                             {DType::bf16, kCodedSplit},
                                                             {DType::bf16, kSmallest}}};
/// Every rule with every format.
inline constexpr auto kEveryStateType = [] {
  std::array<StateTypes, kUpdateRules.size() * kEveryFormat.size()> all = {};
  std::size_t next = 0;
  for (const UpdateRule rule : kUpdateRules) {
    for (StateTypes types : kEveryFormat) {
      types.rule = rule;
      all[next++] = types;
    }
  }
  return all;
}();

/// "bf16, master split, moments fp32".
inline std::string describe(const StateTypes& types) {
  return std::string(name_of(types.precision)) + ", master " + std::string(name_of(types.format.master)) +
         ", moments " + std::string(name_of(types.format.moments));
}

/// Whether a moment is a sum or a mean of squares, which is never negative.
constexpr bool holds_squares(Moment moment) {
  return codes_of(moment) == MomentCodes::squares;
}

/// The bytes of a moment of elements with these values, from a block's first on.
template <typename Value>
std::vector<std::byte> stored_moment(MomentFormat format, MomentCodes codes, std::size_t elements,
                                     const Value& value_of) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = value_of(i);
  const auto bytes_as = [&]<typename T>(T) {
    const std::vector<T> stored(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(stored));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  if (format == MomentFormat::fp32) return bytes_as(float());
  if (format == MomentFormat::bf16) return bytes_as(bfloat16());
  std::vector<std::byte> blocks(static_cast<std::size_t>(coded_bytes(static_cast<std::int64_t>(elements))));
  encode_moment(codes, values, blocks.data());
  return blocks;
}

/// The values of all elements of it.
inline std::vector<float> moment_values(MomentFormat format, MomentCodes codes,
                                        std::span<const std::byte> stored, std::size_t elements) {
  std::vector<float> values(elements);
  const StoredValues all = {.as = format == MomentFormat::coded  ? StoredAs::coded
                                  : format == MomentFormat::bf16 ? StoredAs::bf16
                                                                 : StoredAs::floats,
                            .values = stored.data(),
                            .codes = codes};
  const std::span<const float> read = all.read(0, static_cast<std::int64_t>(elements), values);
  return {read.begin(), read.end()};
}

}  // namespace strata::test
