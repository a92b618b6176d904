#include "base/block_codes.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

constexpr int kDecodeThreads = 256;
constexpr int kDecodeRun = 8;  ///< numbers of a thread
constexpr std::int64_t kMostDecodeBlocks = 4096;
constexpr int kNumbers = 16;  ///< of nf4

struct CodedBlocks {
  const std::uint8_t* codes;
  const float* scales;
  std::int64_t block, first, count;
};

template <BlockFormat format, int run, typename T>
__global__ void __launch_bounds__(kDecodeThreads) decode_blocks(CodedBlocks x, T* to) {
  __shared__ float numbers[kNumbers];
  if constexpr (format == BlockFormat::nf4) {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int code = 0; code < kNumbers; ++code) numbers[code] = normal_float4(code);
    }
    __syncthreads();
  }
  const std::int64_t step = std::int64_t{gridDim.x} * kDecodeThreads * run;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kDecodeThreads + threadIdx.x) * run; i < x.count;
       i += step) {
    std::int64_t block = (x.first + i) / x.block;
    std::int64_t left = (block + 1) * x.block - (x.first + i);
    float values[run];
#pragma unroll
    for (int k = 0; k < run; ++k) {
      if (left == 0) {
        ++block;
        left = x.block;
      }
      --left;
      const std::uint8_t code = code_at(format, x.codes, i + k);
      const float scale = x.scales[block];
      values[k] = format == BlockFormat::nf4 ? numbers[code] * scale : block_number(format, code, scale);
    }
    store_run(from_floats<T>(values), to + i);
  }
}

template <BlockFormat format, typename T>
void launch_decode(const CudaContext& context, const CodedBlocks& x, T* to) {
  constexpr int kRun = std::min<int>(kDecodeRun, 16 / sizeof(T));
  const auto enqueue = [&](auto run) {
    const std::int64_t blocks = divide_rounding_up(x.count, kDecodeThreads * std::int64_t{run()});
    launch(decode_blocks<format, run(), T>, dim3(static_cast<unsigned>(std::min(blocks, kMostDecodeBlocks))),
           dim3(kDecodeThreads), 0, context.stream, x, to);
  };
  with_run<kRun>(x.count, enqueue, Rows<T>{to, 0});
}

}  // namespace

void run_on_cuda(const CudaContext& context, const DecodeBlocks& call) {
  if (call.out.columns == 0) return;
  assert(call.out.rows == 1 && std::ssize(call.codes) == code_bytes(call.format, call.out.columns));
  const CodedBlocks x = {.codes = call.codes.data(),
                         .scales = call.scales.data(),
                         .block = call.block,
                         .first = call.first,
                         .count = call.out.columns};
  with_storage_type(call.out.dtype, [&](auto element) {
    using T = decltype(element);
    if (call.format == BlockFormat::int8)
      return launch_decode<BlockFormat::int8, T>(context, x, call.out.row<T>(0));
    launch_decode<BlockFormat::nf4, T>(context, x, call.out.row<T>(0));
  });
}

}  // namespace strata
