#include <algorithm>

#include "base/nth.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"
#include "engine/device/row_calls.h"

namespace strata {

using namespace reference;

void run_on_reference(const RowCopy& call) {
  const auto& [x, rows, out] = call;
  expect(is_shape(out, static_cast<std::int64_t>(rows.size()), x.columns), "out of [rows, columns]");
  for_each_element(out, [&](std::int64_t i, std::int64_t column) {
    const std::int32_t row = nth(rows, i);
    expect(row == kNoRow || (row >= 0 && row < x.rows), "rows of x");
    store(out, i, column, row == kNoRow ? 0 : load(x, row, column));
  });
}

void run_on_reference(const RowSum& sum) {
  const auto count = static_cast<std::int64_t>(sum.rows.size());
  expect(sum.ranks > 0 && count % sum.ranks == 0 && sum.values.rows == count && sum.out.rows == 1,
         "values of [ranks * n, columns] and a flat sum");
  for (std::int64_t i = 0; i < sum.out.columns; ++i) {
    const std::int64_t row = (sum.first + i) / sum.values.columns;
    const std::int64_t column = (sum.first + i) % sum.values.columns;
    double total = 0;
    for (std::int64_t place = 0; place < count; ++place)
      if (nth(sum.rows, place) == row) total += load(sum.values, place, column);
    store(sum.out, 0, i, total);
  }
}

}  // namespace strata
