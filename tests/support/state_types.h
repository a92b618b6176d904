// What tests of the optimizer store a state in.
#pragma once

#include "optim/state_format.h"

namespace strata::test {

struct StateTypes {
  DType precision = DType::bf16;
  StateFormat format = {};
};
inline constexpr StateFormat kSplit = {.split_master = true};
inline constexpr StateFormat kBf16Moments = {.moments = DType::bf16};
inline constexpr StateFormat kSmallest = {.split_master = true, .moments = DType::bf16};
inline constexpr StateTypes kEveryStateType[] = {
    {DType::fp32, {}}, {DType::fp32, kBf16Moments}, {DType::fp16, {}},           {DType::fp16, kBf16Moments},
    {DType::bf16, {}}, {DType::bf16, kSplit},       {DType::bf16, kBf16Moments}, {DType::bf16, kSmallest}};

}  // namespace strata::test
