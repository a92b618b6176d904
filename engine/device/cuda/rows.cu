// Tables with few rows that are not zero: taking those rows out, and adding up what ranks have taken. A block
// per row.
#include <algorithm>
#include <cassert>
#include <cstdint>

#include "base/storage_type.h"
#include "engine/device/cuda/context.h"
#include "engine/device/cuda/element.cuh"
#include "engine/device/cuda/launch.cuh"
#include "engine/device/elementwise_calls.h"
#include "engine/device/row_calls.h"
#include "engine/device/row_lists.h"

namespace strata {
namespace {

constexpr int kRowThreads = 128;

template <int run, typename From, typename To>
__global__ void __launch_bounds__(kRowThreads)
    copy_rows_kernel(Rows<const From> x, const std::int32_t* rows, Rows<To> out, std::int64_t columns) {
  const std::int32_t row = rows[blockIdx.x];
  To* to = out.row(blockIdx.x);
  for (std::int64_t column = std::int64_t{threadIdx.x} * run; column < columns; column += kRowThreads * run) {
    float values[run] = {};
    if (row != kNoRow) to_floats(load_run<run>(x.row(row) + column), values);
    store_run(from_floats<To>(values), to + column);
  }
}

/// The block of the first rank that has a row adds up all ranks' values in it.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    sum_rows_kernel(RowLists lists, Rows<const T> values, std::int64_t columns, std::int64_t first, T* out,
                    std::int64_t elements) {
  const std::int64_t place = blockIdx.x;
  if (!lists.is_first(place)) return;
  const std::int32_t row = lists.rows[place];
  auto* places = dynamic_shared<std::int64_t>();
  for (std::int64_t rank = threadIdx.x; rank < lists.ranks; rank += kRowThreads)
    places[rank] = lists.find(rank, row);
  __syncthreads();
  const RowPart part = part_of_row(row, columns, first, elements);
  for (std::int64_t i = threadIdx.x; i < part.count; i += kRowThreads) {
    float total = 0;
    for (std::int64_t rank = 0; rank < lists.ranks; ++rank) {
      // A rank without the row has +0 there, which makes a difference to -0.
      const float value = places[rank] < 0 ? 0 : to_float(values.row(places[rank])[part.column + i]);
      total = rank == 0 ? value : total + value;
    }
    out[part.at + i] = from_float<T>(total);
  }
}

}  // namespace

void run_on_cuda(const CudaContext& context, const RowCopy& call) {
  const auto& [x, rows, out] = call;
  assert(static_cast<std::int64_t>(rows.size()) == out.rows);
  if (out.rows == 0) return;
  with_storage_type(x.dtype, [&](auto from) {
    with_storage_type(out.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const auto x_rows = rows_of<const From>(x);
      const auto out_rows = rows_of<To>(out);
      const auto enqueue = [&](auto run) {
        launch(copy_rows_kernel<run(), From, To>, dim3(static_cast<unsigned>(out.rows)), dim3(kRowThreads), 0,
               context.stream, x_rows, rows.data(), out_rows, out.columns);
      };
      with_run<16 / std::max(sizeof(From), sizeof(To))>(out.columns, enqueue, x_rows, out_rows);
    });
  });
}

void run_on_cuda(const CudaContext& context, const RowSum& sum) {
  assert(sum.values.dtype == sum.out.dtype && static_cast<std::int64_t>(sum.rows.size()) == sum.values.rows);
  run_on_cuda(context, Zero{sum.out});
  if (sum.values.rows == 0) return;
  with_storage_type(sum.out.dtype, [&](auto element) {
    using T = decltype(element);
    launch(sum_rows_kernel<T>, dim3(static_cast<unsigned>(sum.values.rows)), dim3(kRowThreads),
           static_cast<std::size_t>(sum.ranks) * sizeof(std::int64_t), context.stream,
           RowLists{sum.rows.data(), sum.ranks, sum.values.rows / sum.ranks}, rows_of<const T>(sum.values),
           sum.values.columns, sum.first, sum.out.row<T>(0), sum.out.columns);
  });
}

}  // namespace strata
