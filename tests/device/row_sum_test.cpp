// Rows that ranks send in place of whole tables add up to the same bits.
#include <cmath>

#include "engine/device/row_calls.h"
#include "tests/device/implementations.h"

namespace strata {
namespace {

using RowSums = EveryImplementation;
INSTANTIATE_TEST_SUITE_P(, RowSums, ::testing::ValuesIn(implementation_choices()), &name_of_choice);

constexpr std::int64_t kTableRows = 23, kColumns = 37, kRanks = 4, kLength = 9;

/// Which rows a rank has.
std::vector<std::int32_t> rows_of_rank(std::int64_t rank) {
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < kTableRows; ++row)
    if (row == 5 || (row * 7 + rank * 3) % 4 == 0) rows.push_back(row);
  rows.resize(static_cast<std::size_t>(kLength), kNoRow);
  return rows;
}

OperandMemory zeros(DType dtype, std::int64_t rows, std::int64_t columns) {
  OperandMemory result(dtype, rows, columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) result.set(i / columns, i % columns, 0);
  return result;
}

/// Gives values of sizes that let the order of additions show, and zeros of both signs.
float value_of(std::int64_t rank, std::int32_t row, std::int64_t column) {
  const auto i = rank * 1009 + row * 31 + column;
  if (column == 3) return -0.0F;
  if (column == 4) return rank % 2 == 0 ? 0.0F : -0.0F;
  return std::ldexp(static_cast<float>(i * i % 1013) - 500.0F, static_cast<int>(i % 25) - 12);
}

TEST_P(RowSums, HaveTheBitsOfAddingWholeTablesRankByRank) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    std::vector<std::int32_t> rows;
    OperandMemory values = poisoned_operand(dtype, kRanks * kLength, kColumns);
    OperandMemory whole(dtype, 1, kTableRows * kColumns);
    std::vector<OperandMemory> tables;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      OperandMemory& table = tables.emplace_back(zeros(dtype, kTableRows, kColumns));
      const std::vector<std::int32_t> own = rows_of_rank(rank);
      for (std::size_t i = 0; i < own.size() && own[i] != kNoRow; ++i) {
        for (std::int64_t column = 0; column < kColumns; ++column) {
          table.set(own[i], column, value_of(rank, own[i], column));
          values.set(rank * kLength + static_cast<std::int64_t>(i), column, value_of(rank, own[i], column));
        }
      }
      rows.insert(rows.end(), own.begin(), own.end());
    }
    for (std::int64_t i = 0; i < whole.columns(); ++i) {
      float sum = tables[0].at(i / kColumns, i % kColumns);
      for (std::int64_t rank = 1; rank < kRanks; ++rank)
        sum += tables[static_cast<std::size_t>(rank)].at(i / kColumns, i % kColumns);
      whole.set(0, i, sum);
    }
    for (const auto& [first, elements] :
         {std::pair<std::int64_t, std::int64_t>{0, whole.columns()}, {100, 333}}) {
      const Scenario scenario{
          "",
          {values, index_operand(rows), poisoned_operand(dtype, 1, elements)},
          [&](Kernels& kernels, const auto& x) {
            kernels.run(RowSum{
                .ranks = kRanks, .rows = indices_of(x[1]), .values = x[0], .first = first, .out = x[2]});
          }};
      const OperandMemory sums = run_scenario(scenario, implementation())[2];
      for (std::int64_t i = 0; i < elements; ++i) {
        EXPECT_EQ(sums.at(0, i), whole.at(0, first + i)) << i;
        EXPECT_EQ(std::signbit(sums.at(0, i)), std::signbit(whole.at(0, first + i))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace strata
