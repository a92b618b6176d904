#include "engine/device/cuda/cublas_lt_problem.h"

namespace strata {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

cublasLtMatrixLayoutOpaque_t matrix_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                           std::int64_t leading) {
  cublasLtMatrixLayoutOpaque_t result;
  check_cublas(cublas_lt().init_layout(&result, sizeof(result), type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), leading),
               "a matrix could not be described");
  return result;
}

namespace {

cublasLtEpilogue_t epilogue_of(const ColumnMajorProduct& problem) {
  const bool has_bias = problem.bias_alignment > 0;
  if (problem.sum.alignment > 0)
    return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

cublasLtMatmulDescOpaque_t operation_of(const ColumnMajorProduct& problem) {
  cublasLtMatmulDescOpaque_t operation;
  check_cublas(cublas_lt().init_operation(&operation, sizeof(operation), CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "a matrix product could not be described");
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, problem.left.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, problem.right.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(problem));
  // The heuristics read alignments off addresses: here ones of exactly the alignment that every call has.
  if (problem.bias_alignment > 0) {
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(problem.out.dtype));
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<std::uintptr_t>(problem.bias_alignment));
  }
  if (problem.sum.alignment > 0) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.sum.leading);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        static_cast<std::uintptr_t>(problem.sum.alignment));
  }
  if (problem.of_codes) {
    // Sums are promoted to fp32 at intervals of the depth; between these Hopper keeps about 14 bits.
    set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
    // The heuristics see whether there are addresses, and how these are aligned.
    for (const auto scale : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      set(operation, scale, static_cast<std::uintptr_t>(kAlignment));
  }
  return operation;
}

cublasLtMatmulPreferenceOpaque_t preference_for(const ColumnMajorProduct& problem, Bytes workspace) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublas_lt().init_preference(&preference, sizeof(preference)),
               "a matrix product could not be described");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
  // Partial sums are kept in fp32 and added by a second kernel. "In place" adds in the output's dtype.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      static_cast<std::uint32_t>(problem.left.alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      static_cast<std::uint32_t>(problem.right.alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<std::uint32_t>(problem.added_to().alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
      static_cast<std::uint32_t>(problem.out.alignment));
  return preference;
}

}  // namespace strata
