// The optimizer's view of an update whose operands the host can address: for devices that run optim's own
// functions.
#pragma once

#include "engine/device/kernels.h"
#include "optim/adamw.h"

namespace strata {

inline AdamWState adamw_state(const AdamWUpdate& update) {
  const auto values = [](const Matrix& x) {
    return std::span(x.row<float>(0), static_cast<std::size_t>(x.elements()));
  };
  return {.master = values(update.master),
          .exp_avg = values(update.exp_avg),
          .exp_avg_sq = values(update.exp_avg_sq),
          .gradient = update.gradient.data,
          .gradient_dtype = update.gradient.dtype,
          .parameter = update.parameter.data,
          .parameter_dtype = update.parameter.dtype};
}

}  // namespace strata
