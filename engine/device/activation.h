// Functions of one number between two layers.
#pragma once

#include <cstdint>

namespace strata {

/// Functions of one number between two layers.
enum class Activation : std::uint8_t {
  gelu_tanh,  ///< tanh approximation of GELU (Hendrycks & Gimpel 2016)
  silu,       ///< x · sigmoid(x) (Elfwing et al. 2017)
  relu2,      ///< max(x, 0)² (So et al. 2021), in fp32: infinite from 2^64 on
};

}  // namespace strata
