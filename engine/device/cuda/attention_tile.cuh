// The two products that attention.cu's kernels are made of, over tiles of 64 tokens of one head: tokens
// against tokens (scores) and weights times tokens, both through slices of 32 columns in shared memory.
// Everything is fp32 and zero beyond the head's ends. A block of 256 threads works on one tile; sums stay in
// its threads' registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"

namespace strata::attention_tile {

constexpr int kTile = 64;      ///< tokens of a tile
constexpr int kSlice = 32;     ///< columns of a head that are in shared memory at a time
constexpr int kThreads = 256;  ///< a square of 16 × 16
constexpr int kSide = 16;      ///< of the square
constexpr int kMine = 4;  ///< rows of a tile, and columns of its scores, that are one thread's: every 16th
constexpr int kPairs = kSlice / kSide;  ///< neighbouring columns of a slice that are one thread's
constexpr int kPadding = 4;             ///< keeps rows aligned to 16 bytes and spreads them over the banks

/// Positions of rows, as strata::Positions has them.
struct RowPositions {
  int rows, first, gap;

  __device__ int at(int row) const { return first + row + (row < rows / 2 ? 0 : gap); }
  __device__ int below(int end) const {
    const int half = rows / 2;
    return clamp(end - first, half) + clamp(end - first - half - gap, rows - half);
  }

 private:
  __device__ static int clamp(int count, int most) { return count < 0 ? 0 : count < most ? count : most; }
};

struct Shape {
  int batch, sequence, heads, dimension;
  int group;  ///< query heads of one key/value head
  int reach;  ///< tokens before itself that a query sees, at most
  float scale;
  float soft_cap;  ///< 0: none
  RowPositions queries, keys;
  /// All queries' in their documents; null: none. A token whose place is negative sees nothing, is seen by
  /// nobody, and its rows of results stay as they are.
  const std::int32_t* places;

  /// The place of a query that is there. REQUIRES: there are places.
  __device__ int place_of(int batch_index, int query) const {
    return places[std::int64_t{batch_index} * sequence + query];
  }
  /// How many tokens before itself a query sees; less than none beyond the sequence.
  __device__ int reach_of(int batch_index, int query) const {
    if (query >= sequence) return -1;
    return places == nullptr ? reach : std::min(reach, place_of(batch_index, query));
  }
  __device__ bool leaves(int batch_index, int token) const {
    return places != nullptr && place_of(batch_index, token) < 0;
  }
};

/// An operand of the call. `vectors`: all of its heads' rows can be read in steps of 16 bytes.
template <typename T>
struct Operand {
  T* data;
  std::int64_t stride;
  bool vectors;
};

/// One head of one sequence.
template <typename T>
struct Head {
  T* data;
  std::int64_t stride;
  int rows, columns;
  bool vectors;
};

template <typename T>
__device__ Head<T> head_of(const Operand<T>& x, const Shape& shape, std::int64_t batch, std::int64_t head) {
  return {x.data + batch * shape.sequence * x.stride + head * shape.dimension, x.stride, shape.sequence,
          shape.dimension, x.vectors};
}

/// What is written: numbers of T, or of fp32. A type of its own for each would be compiled with all others'.
template <typename T>
struct Result {
  T* data;         ///< or null
  float* in_fp32;  ///< or null
  std::int64_t stride;
};

template <typename T>
struct ResultHead {
  T* data;
  float* in_fp32;
  std::int64_t stride;
  int rows, columns;
  const std::int32_t* places;  ///< of its rows, or null

  __device__ bool has(int row) const { return row < rows && (places == nullptr || places[row] >= 0); }
  __device__ void store(int row, int column, float value) const {
    const std::int64_t place = row * stride + column;
    if (std::is_same_v<T, float> || in_fp32 != nullptr) {
      in_fp32[place] = value;
    } else {
      data[place] = from_float<T>(value);
    }
  }
};

template <typename T>
__device__ ResultHead<T> head_of(const Result<T>& x, const Shape& shape, std::int64_t batch,
                                 std::int64_t head) {
  const std::int64_t place = batch * shape.sequence * x.stride + head * shape.dimension;
  return {x.data == nullptr ? nullptr : x.data + place,
          x.in_fp32 == nullptr ? nullptr : x.in_fp32 + place,
          x.stride,
          shape.sequence,
          shape.dimension,
          shape.places == nullptr ? nullptr : shape.places + batch * shape.sequence};
}

/// What a block computes: one tile of one of `heads` heads. Blocks with the same `tile` are neighbours.
struct Place {
  __device__ Place(const Shape& shape, unsigned heads)
      : tile(static_cast<int>(blockIdx.x / (shape.batch * heads))),
        batch(static_cast<int>(blockIdx.x / heads % shape.batch)),
        head(static_cast<int>(blockIdx.x % heads)) {}
  int tile, batch, head;
};

using Slice = float[kTile][kSlice + kPadding];

struct Shared {
  Slice own, other;
  float weights[kTile][kTile + kPadding];
};

using Scores = float[kMine][kMine];
template <int slices>
using Sums = float[slices][kMine][kPairs];

__device__ inline int my_row(int i) {
  return static_cast<int>(threadIdx.x) / kSide + kSide * i;
}
__device__ inline int my_score_column(int i) {
  return static_cast<int>(threadIdx.x) % kSide + kSide * i;
}
__device__ inline int my_slice_column() {
  return static_cast<int>(threadIdx.x) % kSide * kPairs;
}

/// `reach` is the query's.
__device__ inline bool visible(const Shape& shape, int reach, int query, int key) {
  const int distance = shape.queries.at(query) - shape.keys.at(key);
  return distance >= 0 && distance <= reach && key < shape.sequence;
}

/// Neighbouring columns that a thread loads of a slice; heads whose size this divides can be read in steps of
/// 16 bytes.
constexpr int kLoaded = kTile * kSlice / kThreads;

/// values = the first `available` elements at `from`; the rest stays.
template <typename T>
__device__ void load_columns(const T* from, int available, bool vectors, float (&values)[kLoaded]) {
  constexpr int kStep = 16 / sizeof(T);
  if (vectors) {
#pragma unroll
    for (int i = 0; i < kLoaded; i += kStep) {
      const auto run = load_run<kStep>(from + i);
#pragma unroll
      for (int j = 0; j < kStep; ++j) values[i + j] = to_float(run.values[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kLoaded; ++i) {
      if (i < available) values[i] = to_float(from[i]);
    }
  }
}

/// to = columns [column, column + kSlice) of the tile that begins at `first_row`; zero beyond the head.
template <typename T>
__device__ void load_slice(const Head<const T>& x, int first_row, int column, Slice& to) {
  constexpr int kThreadsPerRow = kSlice / kLoaded;
  const int row = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const int offset = static_cast<int>(threadIdx.x) % kThreadsPerRow * kLoaded;
  const int available = first_row + row < x.rows ? x.columns - column - offset : 0;
  float values[kLoaded] = {};
  if (available > 0) {
    load_columns(x.data + (first_row + row) * x.stride + column + offset, available, x.vectors, values);
  }
#pragma unroll
  for (int i = 0; i < kLoaded; i += 4) {
    *reinterpret_cast<float4*>(&to[row][offset + i]) =
        make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
  }
}

/// scores[i][j] += own row my_row(i) · other row my_score_column(j).
template <typename T>
__device__ void add_scores(const Head<const T>& own, int own_first, const Head<const T>& other,
                           int other_first, Shared& shared, Scores& scores) {
  for (int column = 0; column < own.columns; column += kSlice) {
    __syncthreads();  // every thread is done with the slices of before
    load_slice(own, own_first, column, shared.own);
    load_slice(other, other_first, column, shared.other);
    __syncthreads();
#pragma unroll 2
    for (int d = 0; d < kSlice; d += 4) {
      float4 a[kMine], b[kMine];
#pragma unroll
      for (int i = 0; i < kMine; ++i) a[i] = *reinterpret_cast<const float4*>(&shared.own[my_row(i)][d]);
#pragma unroll
      for (int j = 0; j < kMine; ++j)
        b[j] = *reinterpret_cast<const float4*>(&shared.other[my_score_column(j)][d]);
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          scores[i][j] = fmaf(a[i].x, b[j].x, scores[i][j]);
          scores[i][j] = fmaf(a[i].y, b[j].y, scores[i][j]);
          scores[i][j] = fmaf(a[i].z, b[j].z, scores[i][j]);
          scores[i][j] = fmaf(a[i].w, b[j].w, scores[i][j]);
        }
      }
    }
  }
}

/// sums[i] += shared.weights[my_row(i)] · the tile's rows of x. Waits for the weights that other threads
/// write before.
template <int slices, typename T>
__device__ void add_weighted_rows(const Head<const T>& x, int first_row, Shared& shared, Sums<slices>& sums) {
#pragma unroll
  for (int s = 0; s < slices; ++s) {
    if (s * kSlice >= x.columns) continue;
    __syncthreads();
    load_slice(x, first_row, s * kSlice, shared.other);
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < kTile; k += 4) {
      float weights[kMine][4];
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(&shared.weights[my_row(i)][k]);
        weights[i][0] = four.x, weights[i][1] = four.y, weights[i][2] = four.z, weights[i][3] = four.w;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 pair = *reinterpret_cast<const float2*>(&shared.other[k + j][my_slice_column()]);
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          sums[s][i][0] = fmaf(weights[i][j], pair.x, sums[s][i][0]);
          sums[s][i][1] = fmaf(weights[i][j], pair.y, sums[s][i][1]);
        }
      }
    }
  }
}

/// Whether all tokens of the tile are left as they are. Every thread gets the answer.
__device__ inline bool leaves_tile(const Shape& shape, int batch, int first_token) {
  if (shape.places == nullptr) return false;
  float largest = -1;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kTile; i += kWarp) {
    if (first_token + i < shape.sequence)
      largest = std::max(largest, static_cast<float>(shape.place_of(batch, first_token + i)));
  }
  return over_warp<Maximum>(largest) < 0;
}

/// The tile's rows of x = factors · sums.
template <int slices, typename T>
__device__ void store_rows(const Sums<slices>& sums, const float (&factors)[kMine], const ResultHead<T>& x,
                           int first_row) {
  unsigned stored = 0;  // a bit per row: asked for at every store, the stores would be there twice
#pragma unroll
  for (int i = 0; i < kMine; ++i) stored |= unsigned{x.has(first_row + my_row(i))} << i;
#pragma unroll
  for (int s = 0; s < slices; ++s) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if ((stored >> i & 1U) == 0) continue;
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const int column = s * kSlice + my_slice_column() + j;
        if (column < x.columns) x.store(first_row + my_row(i), column, sums[s][i][j] * factors[i]);
      }
    }
  }
}

/// Over the threads that share a row of the tile; all of them get the same bits.
template <typename Reduction>
__device__ float over_row(float value) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = Reduction::combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

}  // namespace strata::attention_tile
