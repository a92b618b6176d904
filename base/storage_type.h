// From a DType, which is known when the program runs, to the C++ type of its elements, which generic code
// needs: the only place that lists them.
#pragma once

#include <utility>

#include "base/dtype.h"

namespace strata {

/// body(T()) for the storage type T of `dtype`; returns what it returns.
template <typename Body>
decltype(auto) with_storage_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::bf16:
      return std::forward<Body>(body)(bfloat16());
    case DType::fp16:
      return std::forward<Body>(body)(float16());
    case DType::fp32:
      break;
  }
  return std::forward<Body>(body)(float());
}

}  // namespace strata
