// What tests of the optimizer store a state in.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/nth.h"
#include "optim/state_format.h"
#include "optim/update_rule.h"

namespace strata::test {

struct StateTypes {
  DType precision = DType::bf16;
  StateFormat format = {};
  UpdateRule rule = UpdateRule::adamw;
};
inline constexpr StateFormat kSplit = {.master = MasterFormat::split};
inline constexpr StateFormat kNoMaster = {.master = MasterFormat::none};
inline constexpr StateFormat kBf16Moments = {.moments = DType::bf16};
inline constexpr StateFormat kSmallSplit = {.master = MasterFormat::split, .moments = DType::bf16};
inline constexpr StateFormat kSmallest = {.master = MasterFormat::none, .moments = DType::bf16};
inline constexpr std::array<StateTypes, 10> kEveryFormat = {{{DType::fp32, {}},
                                                             {DType::fp32, kBf16Moments},
                                                             {DType::fp16, {}},
                                                             {DType::fp16, kBf16Moments},
                                                             {DType::bf16, {}},
                                                             {DType::bf16, kSplit},
                                                             {DType::bf16, kNoMaster},
                                                             {DType::bf16, kBf16Moments},
                                                             {DType::bf16, kSmallSplit},
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
  constexpr std::array<std::string_view, 3> kMasters = {"fp32", "split", "none"};
  return std::string(name_of(types.precision)) + ", master " +
         std::string(nth(kMasters, types.format.master)) + ", moments " +
         std::string(name_of(types.format.moments));
}

/// Whether a moment is a sum or a mean of squares, which is never negative.
constexpr bool holds_squares(Moment moment) {
  return moment == Moment::exp_avg_sq || moment == Moment::square_avg || moment == Moment::sum;
}

}  // namespace strata::test
