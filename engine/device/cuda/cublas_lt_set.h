// Typed setters of what cuBLASLt's descriptions of products hold.
#pragma once

#include <cublasLt.h>

#include "engine/device/cuda/cuda_error.h"

namespace strata {

template <typename T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
               "a matrix product could not be described");
}

template <typename T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
               "a matrix product could not be described");
}

}  // namespace strata
