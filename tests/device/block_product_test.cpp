// The specialised and the portable block product are two implementations of one thing; the faster one must
// not be the only one that is ever run. And how operands of fp16 reach them.
#include "engine/device/cpu/block_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/device/cpu/packing.h"
#include "tests/device/scenario.h"

namespace strata {
namespace {

OperandMemory multiply(BlockProductFunction function, DType dtype, std::int64_t rows, std::int64_t depth) {
  OperandMemory a = random_operand(1, dtype, rows, padded_depth(dtype, depth), 2);
  for (std::int64_t row = 0; row < rows && depth % 2 != 0 && dtype == DType::bf16; ++row)
    a.set(row, depth, 0);
  OperandMemory b = random_operand(2, dtype, depth, kPanelColumns);
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(dtype, depth)));
  pack_panel({.source = b.view().data,
              .dtype = dtype,
              .stride = kPanelColumns,
              .depth = depth,
              .columns = kPanelColumns},
             panel.data());
  OperandMemory out = random_operand(3, DType::fp32, rows, kPanelColumns, 1);
  function({.a = a.view().data,
            .a_stride = a.view().stride,
            .panel = panel.data(),
            .rows = rows,
            .depth = depth,
            .out = out.view().row<float>(0),
            .out_stride = out.view().stride,
            .accumulate = true});
  EXPECT_TRUE(out.padding_is_untouched());
  return out;
}

/// out + a·b with the operands of multiply(), in double precision.
OperandMemory expected(DType dtype, std::int64_t rows, std::int64_t depth) {
  const OperandMemory a = random_operand(1, dtype, rows, padded_depth(dtype, depth), 2);
  const OperandMemory b = random_operand(2, dtype, depth, kPanelColumns);
  OperandMemory out = random_operand(3, DType::fp32, rows, kPanelColumns, 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < kPanelColumns; ++column) {
      double sum = out.at(row, column);
      for (std::int64_t k = 0; k < depth; ++k) sum += static_cast<double>(a.at(row, k)) * b.at(k, column);
      out.set(row, column, static_cast<float>(sum));
    }
  }
  return out;
}

TEST(BlockProduct, OfEveryImplementationIsTheProduct) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 13}) {
      for (const std::int64_t depth : {1, 2, 33, 200}) {
        const OperandMemory reference = expected(dtype, rows, depth);
        EXPECT_LE(relative_error(multiply(portable_block_product_for(dtype), dtype, rows, depth), reference),
                  1e-6);
        EXPECT_LE(relative_error(multiply(block_product_for(dtype), dtype, rows, depth), reference), 1e-6);
      }
    }
  }
}

/// What `pack(operand, to)` writes into `elements` floats.
template <typename Pack>
std::vector<float> packed(const OperandMemory& operand, std::int64_t elements, const Pack& pack) {
  std::vector<float> to(static_cast<std::size_t>(elements), -1.0F);
  OperandMemory copy = operand;
  pack(copy.view(), to.data());
  return to;
}

TEST(Packing, OfFp16IsThatOfTheSameValuesInFp32) {
  for (const std::int64_t columns : {1, 17, 64}) {
    for (const std::int64_t depth : {1, 33, 130}) {
      for (const bool transposed : {false, true}) {
        const OperandMemory operand = transposed ? random_operand(1, DType::fp16, columns, depth, 3)
                                                 : random_operand(1, DType::fp16, depth, columns, 3);
        const auto panel = [&](const Matrix& x, float* to) {
          pack_panel({.source = x.data,
                      .dtype = x.dtype,
                      .stride = x.stride,
                      .depth = depth,
                      .columns = columns,
                      .transposed = transposed},
                     to);
        };
        const std::int64_t panel_elements = depth * kPanelColumns;
        EXPECT_EQ(packed(operand, panel_elements, panel), packed(operand.widened(), panel_elements, panel));
        constexpr std::int64_t kStride = 140;
        const auto turned = [&](const Matrix& x, float* to) { pack_transposed(x, to, kStride); };
        const auto rows = [&](const Matrix& x, float* to) { pack_rows(x, to, kStride); };
        const std::int64_t elements = kStride * std::max(operand.rows(), operand.columns());
        EXPECT_EQ(packed(operand, elements, turned), packed(operand.widened(), elements, turned));
        EXPECT_EQ(packed(operand, elements, rows), packed(operand.widened(), elements, rows));
      }
    }
  }
}

}  // namespace
}  // namespace strata
