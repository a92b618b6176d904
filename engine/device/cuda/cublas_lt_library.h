// The functions of libcublasLt, found when the first product of a GPU is prepared: the library is large, and
// a program that computes on CPUs starts three times as fast without it.
#pragma once

#include <cublasLt.h>

namespace strata {

struct CublasLtLibrary {
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatmulDescInit_internal) init_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_operation;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algorithms;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm;
  decltype(&cublasLtMatmul) multiply;
};

/// Loads it once. Throws DeviceError if there is none, or one without a function. Any thread may call.
const CublasLtLibrary& cublas_lt();

}  // namespace strata
