// A product as cuBLASLt is told of it: typed setters of its descriptions, and those that every product has.
#pragma once

#include "base/bytes.h"
#include "engine/device/cuda/cublas_lt_library.h"
#include "engine/device/cuda/cuda_error.h"
#include "engine/device/cuda/matmul_layout.h"

namespace strata {

template <typename T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublas_lt().set_of_operation(&operation, attribute, &value, sizeof value),
               "a matrix product could not be described");
}

template <typename T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_cublas(cublas_lt().set_of_preference(&preference, attribute, &value, sizeof value),
               "a matrix product could not be described");
}

cudaDataType_t type_of(DType dtype);

/// `leading`: elements from one column to the next.
cublasLtMatrixLayoutOpaque_t matrix_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                           std::int64_t leading);

/// Sums in fp32, which operands are transposed, and what is done to the sum.
cublasLtMatmulDescOpaque_t operation_of(const ColumnMajorProduct& problem);

/// How the problem's operands are aligned, and that no sum is rounded before it is whole.
cublasLtMatmulPreferenceOpaque_t preference_for(const ColumnMajorProduct& problem, Bytes workspace);

}  // namespace strata
