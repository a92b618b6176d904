// NCCL and the few functions of the CUDA runtime that its tests call, for ranks that are threads of one
// process and a GPU whose memory is the host's. A program that has these sources needs no libnccl:
// nccl_library() is theirs. README.md says what is modelled.
#pragma once

#include <functional>

/// What a cudaStream_t points to: does work in the order in which it is added, now or later.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  virtual void add(std::function<void()> work) = 0;
};
