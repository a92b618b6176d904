#include "engine/device/cuda/e4m3.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/float8.h"
#include "engine/device/cuda/addend_copy.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/product_calls.h"
#include "engine/device/state_calls.h"

namespace strata {
namespace {

constexpr int kE4m3Threads = 256;
/// They keep enough loads under way for any GPU, and their results are few.
constexpr std::int64_t kScaleBlocks = 1024;
constexpr std::int64_t kMostE4m3Blocks = std::int64_t{1} << 20;
/// Elements that a thread loads or stores at once.
constexpr int kE4m3Run = 8;
constexpr int kE4m3Tile = 64;

/// Runs of neighbouring elements of a matrix, counted through all rows. If rows lie end to end they are
/// one.
struct E4m3Runs {
  Rows<const bfloat16> x;
  std::int64_t runs_of_row, runs;

  __device__ std::int64_t row_of(std::int64_t run) const {
    return runs == runs_of_row ? 0 : run / runs_of_row;
  }
};

/// Whether runs of kE4m3Run elements can be moved at once, and rows are whole runs.
bool has_whole_runs(const Matrix& x) {
  return x.columns % kE4m3Run == 0 && is_aligned<kE4m3Run>(rows_of<const bfloat16>(x));
}

E4m3Runs e4m3_runs(const Matrix& x, int width) {
  const bool is_one_row = x.contiguous() || x.rows == 1;
  const std::int64_t of_row = (is_one_row ? x.elements() : x.columns) / width;
  return {rows_of<const bfloat16>(x), of_row, x.elements() / width};
}

/// Where run number `run` of neighbouring elements begins.
template <int width>
__device__ __forceinline__ const bfloat16* at(const E4m3Runs& x, std::int64_t run) {
  const std::int64_t row = x.row_of(run);
  return x.x.row(row) + (run - row * x.runs_of_row) * width;
}

/// Numbers of bf16 that are not negative stand in the order of their bits.
template <int width>
__device__ std::uint32_t largest_of(const E4m3Runs& x) {
  std::uint32_t largest = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kE4m3Threads;
#pragma unroll 4
  for (std::int64_t run = std::int64_t{blockIdx.x} * kE4m3Threads + threadIdx.x; run < x.runs; run += step) {
    const auto values = load_run<width>(at<width>(x, run));
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const std::uint32_t magnitude = values.values[i].bits & 0x7fffU;
      largest = magnitude < 0x7f80U && magnitude > largest ? magnitude : largest;
    }
  }
  return largest;
}

/// The largest of all threads' values, on the first.
__device__ std::uint32_t largest_of_block(std::uint32_t value) {
  // Bits of bf16 are whole numbers that fp32 has.
  return static_cast<std::uint32_t>(block_max(static_cast<float>(value)));
}

/// The second row of blocks is for b.
template <int width_a, int width_b>
__global__ void __launch_bounds__(kE4m3Threads)
    find_largest(E4m3Runs a, E4m3Runs b, std::uint32_t* of_block) {
  const std::uint32_t largest =
      largest_of_block(blockIdx.y == 0 ? largest_of<width_a>(a) : largest_of<width_b>(b));
  if (threadIdx.x == 0) of_block[blockIdx.y * gridDim.x + blockIdx.x] = largest;
}

/// A block for each operand. `inverse_a` and `inverse_b` may be null.
__global__ void __launch_bounds__(kE4m3Threads)
    find_scales(const std::uint32_t* of_block, int blocks, Float8Factors* scales, float* inverse_a,
                float* inverse_b) {
  std::uint32_t largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kE4m3Threads) {
    const std::uint32_t other =
        of_block[blockIdx.x * static_cast<unsigned>(blocks) + static_cast<unsigned>(i)];
    largest = other > largest ? other : largest;
  }
  largest = largest_of_block(largest);
  if (threadIdx.x != 0) return;
  bfloat16 magnitude;
  magnitude.bits = static_cast<std::uint16_t>(largest);
  const Float8Scale scale = Float8Scale::of(to_float(magnitude));
  scales[blockIdx.x] = {scale.factor(), scale.inverse()};
  if (float* const inverse = blockIdx.x == 0 ? inverse_a : inverse_b) *inverse = scale.inverse();
}

/// The codes of two numbers, the first in the low byte. The bits of float8_e4m3, but for a NaN's sign.
__device__ __forceinline__ std::uint32_t codes_of(float first, float second) {
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 890
  // It makes 448 of an infinity.
  const auto without_infinity = [](float value) { return fabsf(value) < INFINITY ? value : NAN; };
  std::uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(codes)
      : "f"(without_infinity(second)), "f"(without_infinity(first)));
  return codes;
#endif
#endif
  return static_cast<std::uint32_t>(float8_e4m3(first).bits) |
         static_cast<std::uint32_t>(float8_e4m3(second).bits) << 8;
}

/// The codes of a run, which starts at a multiple of 16 bytes if it is `aligned`.
template <bool aligned>
__device__ __forceinline__ uint2 encode_run(const bfloat16* from, float factor) {
  float values[kE4m3Run];
  if constexpr (aligned) {
    to_floats(load_run<kE4m3Run>(from), values);
  } else {
#pragma unroll
    for (int i = 0; i < kE4m3Run; ++i) values[i] = to_float(from[i]);
  }
  std::uint32_t codes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) codes[i] = codes_of(values[2 * i] * factor, values[2 * i + 1] * factor);
  return make_uint2(codes[0] | codes[1] << 16, codes[2] | codes[3] << 16);
}

template <bool aligned>
__global__ void __launch_bounds__(kE4m3Threads) encode(E4m3Runs x, const Float8Factors* scale, uint2* codes) {
  const float factor = scale->factor;
  const std::int64_t step = std::int64_t{gridDim.x} * kE4m3Threads;
  for (std::int64_t run = std::int64_t{blockIdx.x} * kE4m3Threads + threadIdx.x; run < x.runs; run += step)
    codes[run] = encode_run<aligned>(at<kE4m3Run>(x, run), factor);
}

/// A block turns a tile. Rows and columns are whole runs.
template <bool aligned>
__global__ void __launch_bounds__(kE4m3Threads)
    encode_transposed(Rows<const bfloat16> x, std::int64_t rows, std::int64_t columns,
                      const Float8Factors* scale, std::uint8_t* codes) {
  // A column's codes are behind one another. 68 bytes from one to the next: whole words, on 17 banks further.
  constexpr int kPitch = kE4m3Tile + 4, kRuns = kE4m3Tile / kE4m3Run;
  __shared__ std::uint32_t words[kE4m3Tile * kPitch / 4];
  auto* tile = reinterpret_cast<std::uint8_t*>(words);
  const float factor = scale->factor;
  const std::int64_t first_column = std::int64_t{blockIdx.x} * kE4m3Tile;
  const int in_run = static_cast<int>(threadIdx.x) % kRuns * kE4m3Run;
  for (std::int64_t first_row = std::int64_t{blockIdx.y} * kE4m3Tile; first_row < rows;
       first_row += std::int64_t{gridDim.y} * kE4m3Tile) {
    for (int row = static_cast<int>(threadIdx.x) / kRuns; row < kE4m3Tile; row += kE4m3Threads / kRuns) {
      if (first_row + row >= rows || first_column + in_run >= columns) continue;
      const uint2 run = encode_run<aligned>(x.row(first_row + row) + first_column + in_run, factor);
#pragma unroll
      for (int i = 0; i < kE4m3Run; ++i)
        tile[(in_run + i) * kPitch + row] = static_cast<std::uint8_t>((i < 4 ? run.x : run.y) >> (i % 4 * 8));
    }
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x) / kRuns; column < kE4m3Tile;
         column += kE4m3Threads / kRuns) {
      if (first_column + column >= columns || first_row + in_run >= rows) continue;
      const std::uint32_t* from = words + (column * kPitch + in_run) / 4;
      *reinterpret_cast<uint2*>(codes + (first_column + column) * rows + first_row + in_run) =
          make_uint2(from[0], from[1]);
    }
    __syncthreads();
  }
}

template <int width>
__global__ void __launch_bounds__(kE4m3Threads)
    round_runs(E4m3Runs x, const Float8Factors* scale, bfloat16* to) {
  const float factor = scale->factor, inverse = scale->inverse;
  const std::int64_t step = std::int64_t{gridDim.x} * kE4m3Threads;
  for (std::int64_t run = std::int64_t{blockIdx.x} * kE4m3Threads + threadIdx.x; run < x.runs; run += step) {
    float values[width];
    to_floats(load_run<width>(at<width>(x, run)), values);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = static_cast<float>(float8_e4m3(values[i] * factor)) * inverse;
    store_run(from_floats<bfloat16>(values), to + run * width);
  }
}

/// The numbers that codes stand for.
__device__ __forceinline__ Run<bfloat16, kE4m3Run> decode_run(const Run<std::uint8_t, kE4m3Run>& codes,
                                                              float inverse) {
  Run<bfloat16, kE4m3Run> numbers;
#pragma unroll
  for (int i = 0; i < kE4m3Run; ++i) numbers.values[i] = decoded_float8(codes.values[i], inverse);
  return numbers;
}

__global__ void __launch_bounds__(kE4m3Threads)
    decode(const std::uint8_t* codes, std::int64_t runs, const Float8Factors* scale, bfloat16* to) {
  const float inverse = scale->inverse;
  const std::int64_t step = std::int64_t{gridDim.x} * kE4m3Threads;
  for (std::int64_t run = std::int64_t{blockIdx.x} * kE4m3Threads + threadIdx.x; run < runs; run += step)
    store_run(decode_run(load_run<kE4m3Run>(codes + run * kE4m3Run), inverse), to + run * kE4m3Run);
}

dim3 e4m3_blocks(std::int64_t runs, std::int64_t most) {
  return dim3(
      static_cast<unsigned>(std::clamp<std::int64_t>(divide_rounding_up(runs, kE4m3Threads), 1, most)));
}

/// Calls body with 8 if the matrix has whole runs, else with 1.
template <typename Body>
void with_e4m3_width(const Matrix& x, const Body& body) {
  if (has_whole_runs(x)) {
    body(std::integral_constant<int, kE4m3Run>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

}  // namespace

E4m3Area::E4m3Area(const Product& product, std::byte* base) : bytes(0) {
  const auto take = [&](Bytes size) {
    std::byte* piece = base == nullptr ? nullptr : base + bytes;
    bytes += align_up(size);
    return piece;
  };
  largest =
      reinterpret_cast<std::uint32_t*>(take(2 * kScaleBlocks * static_cast<Bytes>(sizeof(std::uint32_t))));
  scales = reinterpret_cast<Float8Factors*>(take(2 * sizeof(Float8Factors)));
  inverses.a = reinterpret_cast<float*>(take(sizeof(float)));
  inverses.b = reinterpret_cast<float*>(take(sizeof(float)));
  a = take(product.a.elements() * size_of(DType::bf16));
  b = take(product.b.elements() * size_of(DType::bf16));
  addend = take(addend_copy_bytes(product));
}

Bytes scratch_on_cuda(const Product& product) {
  return product.rounding == Rounding::none ? addend_copy_bytes(product) : E4m3Area(product, nullptr).bytes;
}

void find_e4m3_scales(const CudaContext& context, const Product& product, const E4m3Area& area) {
  assert(product.a.dtype == DType::bf16 && product.b.dtype == DType::bf16);
  with_e4m3_width(product.a, [&](auto width_a) {
    with_e4m3_width(product.b, [&](auto width_b) {
      const E4m3Runs a = e4m3_runs(product.a, width_a), b = e4m3_runs(product.b, width_b);
      dim3 grid = e4m3_blocks(std::max(a.runs, b.runs), kScaleBlocks);
      const auto blocks = static_cast<int>(grid.x);
      grid.y = 2;
      launch(find_largest<width_a, width_b>, grid, dim3(kE4m3Threads), 0, context.stream, a, b, area.largest);
      launch(find_scales, dim3(2), dim3(kE4m3Threads), 0, context.stream, area.largest, blocks, area.scales,
             area.inverses.a, area.inverses.b);
    });
  });
}

void round_to_e4m3(const CudaContext& context, const Matrix& x, const Float8Factors* scale,
                   const Matrix& to) {
  assert(to.contiguous() && to.dtype == DType::bf16);
  with_e4m3_width(x, [&](auto width) {
    const E4m3Runs runs = e4m3_runs(x, width);
    launch(round_runs<width>, e4m3_blocks(runs.runs, kMostE4m3Blocks), dim3(kE4m3Threads), 0, context.stream,
           runs, scale, to.row<bfloat16>(0));
  });
}

void encode_as_e4m3(const CudaContext& context, const Matrix& x, bool transposed, const Float8Factors* scale,
                    std::uint8_t* codes) {
  const bool aligned = has_whole_runs(x);
  if (transposed) {
    constexpr std::int64_t kMostTilesDown = 65535;
    const dim3 grid(static_cast<unsigned>(divide_rounding_up(x.columns, kE4m3Tile)),
                    static_cast<unsigned>(std::min(divide_rounding_up(x.rows, kE4m3Tile), kMostTilesDown)));
    return launch(aligned ? encode_transposed<true> : encode_transposed<false>, grid, dim3(kE4m3Threads), 0,
                  context.stream, rows_of<const bfloat16>(x), x.rows, x.columns, scale, codes);
  }
  const E4m3Runs runs = e4m3_runs(x, kE4m3Run);
  launch(aligned ? encode<true> : encode<false>, e4m3_blocks(runs.runs, kMostE4m3Blocks), dim3(kE4m3Threads),
         0, context.stream, runs, scale, reinterpret_cast<uint2*>(codes));
}

Bytes scratch_on_cuda(const EncodeFloat8& /*call*/) {
  return kScaleBlocks * static_cast<Bytes>(sizeof(std::uint32_t));
}

void run_on_cuda(const CudaContext& context, const EncodeFloat8& call) {
  assert(call.x.rows == 1 && call.x.columns == std::ssize(call.codes) && has_whole_runs(call.x));
  auto* largest = reinterpret_cast<std::uint32_t*>(context.scratch.at_least(scratch_on_cuda(call)));
  const E4m3Runs runs = e4m3_runs(call.x, kE4m3Run);
  const dim3 grid = e4m3_blocks(runs.runs, kScaleBlocks);
  launch(find_largest<kE4m3Run, kE4m3Run>, grid, dim3(kE4m3Threads), 0, context.stream, runs, runs, largest);
  launch(find_scales, dim3(1), dim3(kE4m3Threads), 0, context.stream, largest, static_cast<int>(grid.x),
         call.scale, nullptr, nullptr);
  encode_as_e4m3(context, call.x, false, call.scale, call.codes.data());
}

void run_on_cuda(const CudaContext& context, const DecodeFloat8& call) {
  assert(call.out.rows == 1 && call.out.columns == std::ssize(call.codes) && has_whole_runs(call.out));
  const std::int64_t runs = call.out.columns / kE4m3Run;
  launch(decode, e4m3_blocks(runs, kMostE4m3Blocks), dim3(kE4m3Threads), 0, context.stream, call.codes.data(),
         runs, call.scale, call.out.row<bfloat16>(0));
}

}  // namespace strata
