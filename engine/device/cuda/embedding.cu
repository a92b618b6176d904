// Table look-up, and its gradient: positions are sorted by row, keeping their order, and every table row
// then collects its gradients one after another. No two threads ever add to one place.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/row_calls.h"

namespace strata {
namespace {

constexpr int kRows = 8;  ///< rows of a block, a warp each

/// The rows of tokens that a table has.
struct Stretch {
  std::int32_t first, rows;

  /// `rows` for tokens that it lacks.
  __device__ std::int32_t row_of(std::int32_t token) const {
    const std::int32_t row = token - first;
    return row >= 0 && row < rows ? row : rows;
  }
};

Stretch stretch_of(const Matrix& table, const FirstRow& first_row) {
  return {first_row.value_or(0), static_cast<std::int32_t>(table.rows)};
}

/// A warp per token; every lane copies `run` columns at a time.
template <int run, typename T>
__global__ void __launch_bounds__(kRows* kWarp)
    embedding_kernel(const std::int32_t* tokens, std::int64_t count, Stretch stretch, Rows<const T> table,
                     Rows<const T> positions, const std::int32_t* places, std::int64_t sequence, Rows<T> out,
                     std::int64_t columns) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.y;
  if (row >= count) return;
  const std::int32_t table_row = stretch.row_of(tokens[row]);
  const T* from = table.row(table_row);
  const T* position = positions.data == nullptr
                          ? nullptr
                          : positions.row(places == nullptr ? row % sequence : std::int64_t{places[row]});
  T* to = out.row(row);
  for (std::int64_t column = threadIdx.x * run; column < columns; column += kWarp * run) {
    Run<T, run> values = {};
    if (table_row < stretch.rows) values = load_run<run>(from + column);
    if (position != nullptr) {
      const auto addends = load_run<run>(position + column);
#pragma unroll
      for (int i = 0; i < run; ++i) {
        values.values[i] = from_float<T>(to_float(values.values[i]) + to_float(addends.values[i]));
      }
    }
    store_run(values, to + column);
  }
}

// The sort: a radix sort from the lowest digit up. A thread of a block owns one digit and meets the block's
// entries in order, which makes each pass stable without any coordination.

struct Entry {
  std::int32_t row, position;  ///< of the table
};

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kEntries = 512;  ///< of a block

struct SortPass {
  const std::int32_t* tokens;
  const Entry* from;  ///< or nullptr in the first pass: the tokens at their positions
  Entry* to;
  std::int32_t* counts;  ///< [blocks, kDigits]
  std::int64_t count;
  Stretch stretch;
  int shift;  ///< of the digit in a row's number

  __device__ Entry entry(std::int64_t i) const {
    return from == nullptr ? Entry{stretch.row_of(tokens[i]), static_cast<std::int32_t>(i)} : from[i];
  }
  __device__ int digit(const Entry& entry) const { return entry.row >> shift & (kDigits - 1); }
};

__global__ void __launch_bounds__(kDigits) count_digits_kernel(SortPass pass) {
  __shared__ std::uint8_t digits[kEntries];
  const std::int64_t first = std::int64_t{blockIdx.x} * kEntries;
  const int entries = static_cast<int>(std::min(std::int64_t{kEntries}, pass.count - first));
  const int mine = static_cast<int>(threadIdx.x);
  for (int i = mine; i < entries; i += kDigits)
    digits[i] = static_cast<std::uint8_t>(pass.digit(pass.entry(first + i)));
  __syncthreads();
  std::int32_t count = 0;
  for (int i = 0; i < entries; ++i) count += digits[i] == mine;
  pass.counts[std::int64_t{blockIdx.x} * kDigits + mine] = count;
}

/// Where this block's first entry of this thread's digit goes: after all entries of lower digits, and those
/// of its digit in earlier blocks.
__device__ std::int32_t first_place(const SortPass& pass) {
  __shared__ std::int32_t totals[kDigits];
  std::int32_t before = 0, total = 0;
#pragma unroll 8
  for (unsigned block = 0; block < gridDim.x; ++block) {
    const std::int32_t count = pass.counts[std::int64_t{block} * kDigits + threadIdx.x];
    total += count;
    before += block < blockIdx.x ? count : 0;
  }
  totals[threadIdx.x] = total;
  __syncthreads();
  for (unsigned lower = 0; lower < threadIdx.x; ++lower) before += totals[lower];
  return before;
}

__global__ void __launch_bounds__(kDigits) move_entries_kernel(SortPass pass) {
  __shared__ Entry entries[kEntries];
  const std::int64_t first = std::int64_t{blockIdx.x} * kEntries;
  const int count = static_cast<int>(std::min(std::int64_t{kEntries}, pass.count - first));
  const int mine = static_cast<int>(threadIdx.x);
  for (int i = mine; i < count; i += kDigits) entries[i] = pass.entry(first + i);
  std::int32_t place = first_place(pass);  // has a barrier
  for (int i = 0; i < count; ++i) {
    if (pass.digit(entries[i]) == mine) pass.to[place++] = entries[i];
  }
}

/// Rows that a lane has in flight.
constexpr int kAhead = 16;

/// Adds rows row_of(first), ..., row_of(last - 1) of x to gradient[0, run), one after another. The lanes of a
/// warp have the same rows, and look up a row each ahead of time; a lane without columns only takes part in
/// that.
template <int run, typename T, typename RowOf>
__device__ void add_rows_in_order(const Rows<const T>& x, std::int64_t column, std::int64_t columns,
                                  std::int64_t first, std::int64_t last, const RowOf& row_of,
                                  float* gradient) {
  const auto look_up = [&](std::int64_t i) {
    const std::int64_t mine = i + threadIdx.x;
    return mine < last ? static_cast<std::int32_t>(row_of(mine)) : 0;
  };
  Bits<T, run> ahead[kAhead] = {};
  const auto load = [&](std::int64_t i, std::int32_t rows, int slot) {
    const std::int32_t row = __shfl_sync(0xffffffffU, rows, slot);
    if (i + slot < last && column < columns) ahead[slot] = load_bits<run>(x.row(row) + column);
  };
  Run<float, run> sums = {};
  if (column < columns) sums = load_run<run>(gradient);
  std::int32_t rows = look_up(first);
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) load(first, rows, slot);
  for (; first < last; first += kAhead) {
    rows = look_up(first + kAhead);
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
      if (first + slot < last) {
        const auto values = std::bit_cast<Run<T, run>>(ahead[slot]);
#pragma unroll
        for (int i = 0; i < run; ++i) sums.values[i] += to_float(values.values[i]);
      }
      load(first + kAhead, rows, slot);
    }
  }
  if (column < columns) store_run(sums, gradient);
}

/// One past the last entry of the row at `first`: doubling steps, then halving ones.
__device__ std::int64_t end_of_row(const Entry* entries, std::int64_t count, std::int64_t first) {
  const std::int32_t row = entries[first].row;
  std::int64_t inside = first, step = 1;
  while (inside + step < count && entries[inside + step].row == row) {
    inside += step;
    step *= 2;
  }
  for (; step > 0; step /= 2) {
    if (inside + step < count && entries[inside + step].row == row) inside += step;
  }
  return inside + 1;
}

/// The columns of a block's thread; blocks along y share a row.
template <int run>
__device__ std::int64_t my_column() {
  return (std::int64_t{blockIdx.y} * kWarp + threadIdx.x) * run;
}

/// A warp per entry and 32 · run columns; the warp of a row's first entry adds the gradients of all.
template <int run, typename T>
__global__ void __launch_bounds__(kRows* kWarp, run == 1 ? 3 : 0)
    table_gradient_kernel(const Entry* entries, std::int64_t count, Rows<const T> out_gradient,
                          std::int64_t columns, Rows<float> table_gradient, Stretch stretch,
                          std::int32_t padding_token) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kRows + threadIdx.y;
  const std::int64_t column = my_column<run>();
  if (first >= count) return;
  const std::int32_t row = entries[first].row;
  const bool takes = row < stretch.rows && row != padding_token - stretch.first;
  if (!takes || (first > 0 && entries[first - 1].row == row)) return;
  add_rows_in_order<run>(
      out_gradient, column, columns, first, end_of_row(entries, count, first),
      [&](std::int64_t i) { return entries[i].position; }, table_gradient.row(row) + column);
}

/// A warp per position of the sequence and 32 · run columns.
template <int run, typename T>
__global__ void __launch_bounds__(kRows* kWarp, run == 1 ? 3 : 0)
    positions_gradient_kernel(std::int64_t count, std::int64_t sequence, Rows<const T> out_gradient,
                              std::int64_t columns, Rows<float> positions_gradient) {
  const std::int64_t position = std::int64_t{blockIdx.x} * kRows + threadIdx.y;
  const std::int64_t column = my_column<run>();
  if (position >= sequence || position >= count) return;
  add_rows_in_order<run>(
      out_gradient, column, columns, 0, (count - position + sequence - 1) / sequence,
      [&](std::int64_t i) { return i * sequence + position; }, positions_gradient.row(position) + column);
}

unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>(divide_rounding_up(count, per_block));
}

template <typename T>
void embedding_of_type(const CudaContext& context, const EmbeddingForward& call) {
  const Stretch stretch = stretch_of(call.table, call.first_row);
  const auto table_rows = rows_of<const T>(call.table);
  const auto position_rows = call.positions ? rows_of<const T>(call.positions) : Rows<const T>{};
  const auto out_rows = rows_of<T>(call.out);
  const auto enqueue = [&](auto run) {
    launch(embedding_kernel<run(), T>, dim3(blocks_for(call.out.rows, kRows)), dim3(kWarp, kRows), 0,
           context.stream, call.tokens.data(), call.out.rows, stretch, table_rows, position_rows,
           call.places.data(), call.sequence, out_rows, call.out.columns);
  };
  with_run<16 / sizeof(T)>(call.out.columns, enqueue, table_rows, position_rows, out_rows);
}

Bytes entry_bytes_of(std::int64_t tokens) {
  return align_up(tokens * static_cast<Bytes>(sizeof(Entry)), 16);
}

/// Entries of all tokens, sorted by row and then by position; lives in the scratch memory of the call. Rows
/// are those of tokens in a table, or of places in that of positions.
const Entry* sorted_entries(const CudaContext& context, const EmbeddingBackward& call,
                            std::span<const std::int32_t> tokens, const Stretch& stretch,
                            std::int32_t last_row) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const unsigned blocks = blocks_for(count, kEntries);
  const Bytes entry_bytes = entry_bytes_of(count);
  std::byte* scratch = context.scratch.at_least(scratch_on_cuda(call));
  Entry* const buffers[] = {reinterpret_cast<Entry*>(scratch),
                            reinterpret_cast<Entry*>(scratch + entry_bytes)};
  auto* counts = reinterpret_cast<std::int32_t*>(scratch + 2 * entry_bytes);
  const Entry* sorted = nullptr;
  for (int shift = 0; sorted == nullptr || last_row >> shift > 0; shift += kDigitBits) {
    const SortPass pass = {.tokens = tokens.data(),
                           .from = sorted,
                           .to = sorted == buffers[0] ? buffers[1] : buffers[0],
                           .counts = counts,
                           .count = count,
                           .stretch = stretch,
                           .shift = shift};
    launch(count_digits_kernel, dim3(blocks), dim3(kDigits), 0, context.stream, pass);
    launch(move_entries_kernel, dim3(blocks), dim3(kDigits), 0, context.stream, pass);
    sorted = pass.to;
  }
  return sorted;
}

template <typename T>
void embedding_backward_of_type(const CudaContext& context, const EmbeddingBackward& call) {
  const std::int64_t count = call.out_gradient.rows, columns = call.out_gradient.columns;
  const auto gradient_rows = rows_of<const T>(call.out_gradient);
  const auto table_rows = rows_of<float>(call.table_gradient);
  const auto position_rows = rows_of<float>(call.positions_gradient);
  const auto enqueue = [&](auto run) {
    const unsigned column_blocks = blocks_for(columns, kWarp * run());
    const auto add_sorted = [&](std::span<const std::int32_t> tokens, const Rows<float>& rows,
                                const Stretch& stretch, std::int32_t last_row, std::int32_t left_out) {
      const Entry* entries = sorted_entries(context, call, tokens, stretch, last_row);
      launch(table_gradient_kernel<run(), T>, dim3(blocks_for(count, kRows), column_blocks),
             dim3(kWarp, kRows), 0, context.stream, entries, count, gradient_rows, columns, rows, stretch,
             left_out);
    };
    if (call.table_gradient) {
      const Stretch stretch = stretch_of(call.table_gradient, call.first_row);
      add_sorted(call.tokens, table_rows, stretch, stretch.rows - (call.first_row ? 0 : 1),
                 call.padding_token);
    }
    if (!call.positions_gradient) return;
    if (!call.places.empty()) {
      const Stretch stretch = stretch_of(call.positions_gradient, {});
      return add_sorted(call.places, position_rows, stretch, stretch.rows - 1, kNoRow);
    }
    launch(positions_gradient_kernel<run(), T>, dim3(blocks_for(call.sequence, kRows), column_blocks),
           dim3(kWarp, kRows), 0, context.stream, count, call.sequence, gradient_rows, columns,
           position_rows);
  };
  with_run<4>(columns, enqueue, gradient_rows, table_rows, position_rows);
}

}  // namespace

void run_on_cuda(const CudaContext& context, const EmbeddingForward& call) {
  assert(static_cast<std::int64_t>(call.tokens.size()) == call.out.rows &&
         call.table.dtype == call.out.dtype);
  if (call.out.rows == 0) return;
  with_storage_type(call.out.dtype,
                    [&](auto element) { embedding_of_type<decltype(element)>(context, call); });
}

Bytes scratch_on_cuda(const EmbeddingBackward& call) {
  if (!call.table_gradient && call.places.empty()) return 0;
  const auto count = static_cast<std::int64_t>(call.tokens.size());
  return 2 * entry_bytes_of(count) +
         std::int64_t{blocks_for(count, kEntries)} * kDigits * static_cast<Bytes>(sizeof(std::int32_t));
}

void run_on_cuda(const CudaContext& context, const EmbeddingBackward& call) {
  assert(static_cast<std::int64_t>(call.tokens.size()) == call.out_gradient.rows);
  if (call.out_gradient.rows == 0) return;
  with_storage_type(call.out_gradient.dtype,
                    [&](auto element) { embedding_backward_of_type<decltype(element)>(context, call); });
}

}  // namespace strata
