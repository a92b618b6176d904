// Packed products are what AVX2 machines use; here every instruction set of this one runs them.
#include "engine/device/cpu/packed_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/device/scenario.h"
#include "tests/support/highway_target.h"

namespace strata {
namespace {

struct ProductCase {
  std::int64_t m, n, k;
  DType dtype = DType::fp32, out_dtype = DType::fp32;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
};

/// Stored with a gap behind each row.
OperandMemory operand(std::uint64_t seed, DType dtype, std::int64_t rows, std::int64_t columns,
                      bool transposed) {
  return random_operand(seed, dtype, transposed ? columns : rows, transposed ? rows : columns, 3);
}

struct Operands {
  explicit Operands(const ProductCase& c)
      : a(operand(1, c.dtype, c.m, c.k, c.transpose_a)),
        b(operand(2, c.dtype, c.k, c.n, c.transpose_b)),
        bias(random_operand(3, c.dtype, 1, c.n)),
        out(random_operand(4, c.out_dtype, c.m, c.n, 3)) {}
  OperandMemory a, b, bias, out;
};

/// Multiplies the rows and columns from `row` and `column` on, as a tile is given them.
void multiply(const ProductCase& c, Operands& o, std::int64_t row = 0, std::int64_t column = 0) {
  const Matrix a =
      c.transpose_a ? o.a.view().column_slice(row, c.m - row) : o.a.view().row_slice(row, c.m - row);
  const Matrix b = c.transpose_b ? o.b.view().row_slice(column, c.n - column)
                                 : o.b.view().column_slice(column, c.n - column);
  const TileProduct product{.m = c.m - row,
                            .n = c.n - column,
                            .k = c.k,
                            .a_row = c.transpose_a ? 1 : a.stride,
                            .a_column = c.transpose_a ? a.stride : 1,
                            .b_row = c.transpose_b ? 1 : b.stride,
                            .b_column = c.transpose_b ? b.stride : 1,
                            .out_row = o.out.view().stride,
                            .dtype = c.dtype,
                            .out_dtype = c.out_dtype,
                            .accumulate = c.accumulate,
                            .bias = c.bias};
  const Bytes bytes = packed_scratch_bytes(product);
  std::vector<std::byte> scratch(static_cast<std::size_t>(bytes + 2 * kAlignment), std::byte{0x7f});
  const auto offset =
      align_up(reinterpret_cast<Bytes>(scratch.data())) - reinterpret_cast<Bytes>(scratch.data());
  multiply_packed(product, a.data, b.data, o.out.view().row_slice(row, 1).column_slice(column, 1).data,
                  c.bias ? o.bias.view().column_slice(column, 1).data : nullptr, scratch.data() + offset);
  for (Bytes i = offset + bytes; i < std::ssize(scratch); ++i)
    ASSERT_EQ(scratch[static_cast<std::size_t>(i)], std::byte{0x7f}) << "written behind the scratch";
}

void expect_product(const ProductCase& c) {
  SCOPED_TRACE(::testing::Message() << c.m << " x " << c.n << " x " << c.k << " " << name_of(c.dtype)
                                    << " to " << name_of(c.out_dtype) << ", transposed " << c.transpose_a
                                    << c.transpose_b << ", accumulate " << c.accumulate << ", bias "
                                    << c.bias);
  Operands given(c), result(c);
  multiply(c, result);
  EXPECT_TRUE(result.out.padding_is_untouched());
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = c.accumulate ? given.out.at(i, j) : 0.0;
      if (c.bias) sum += given.bias.at(0, j);
      for (std::int64_t k = 0; k < c.k; ++k) {
        sum += double{c.transpose_a ? given.a.at(k, i) : given.a.at(i, k)} *
               double{c.transpose_b ? given.b.at(j, k) : given.b.at(k, j)};
      }
      difference += std::pow(sum - double{result.out.at(i, j)}, 2);
      norm += sum * sum;
    }
  }
  EXPECT_LE(std::sqrt(difference), (c.out_dtype == DType::fp32 ? 1e-6 : 4e-3) * std::sqrt(norm));
}

class PackedProduct : public ::testing::TestWithParam<std::int64_t> {
 private:
  OnHighwayTarget target_{GetParam()};
};

TEST_P(PackedProduct, IsTheProductForEveryStorageOrientationAndEdge) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const DType out_dtype : {DType::fp32, dtype}) {
      for (int flags = 0; flags < 16; ++flags) {
        for (const auto [m, n, k] : {std::array{37, 33, 29}, std::array{1, 1, 1}, std::array{12, 64, 40}}) {
          expect_product({.m = m,
                          .n = n,
                          .k = k,
                          .dtype = dtype,
                          .out_dtype = out_dtype,
                          .transpose_a = (flags & 1) != 0,
                          .transpose_b = (flags & 2) != 0,
                          .accumulate = (flags & 4) != 0,
                          .bias = (flags & 8) != 0});
        }
      }
    }
  }
}

TEST_P(PackedProduct, IsTheProductWhereRowsAndDepthArePackedInSeveralParts) {
  for (int flags = 0; flags < 8; ++flags) {
    expect_product({.m = 203,
                    .n = 50,
                    .k = 500,
                    .dtype = flags >= 4 ? DType::bf16 : DType::fp32,
                    .transpose_a = (flags & 1) != 0,
                    .transpose_b = (flags & 2) != 0,
                    .bias = true});
  }
}

TEST_P(PackedProduct, AnElementsBitsDependNeitherOnTheTilesEdgesNorOnHowOperandsAreStored) {
  const ProductCase whole = {.m = 203, .n = 37, .k = 400};
  Operands expected(whole);
  multiply(whole, expected);
  for (int flags = 0; flags < 4; ++flags) {
    ProductCase c = whole;
    c.transpose_a = (flags & 1) != 0;
    c.transpose_b = (flags & 2) != 0;
    Operands part(c);
    for (std::int64_t k = 0; k < c.k; ++k) {
      for (std::int64_t i = 0; i < c.m; ++i)
        part.a.set(c.transpose_a ? k : i, c.transpose_a ? i : k, expected.a.at(i, k));
      for (std::int64_t j = 0; j < c.n; ++j)
        part.b.set(c.transpose_b ? j : k, c.transpose_b ? k : j, expected.b.at(k, j));
    }
    multiply(c, part, 5, 3);
    for (std::int64_t i = 5; i < c.m; ++i) {
      for (std::int64_t j = 3; j < c.n; ++j)
        ASSERT_EQ(part.out.at(i, j), expected.out.at(i, j)) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PackedProduct, ::testing::ValuesIn(highway_targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

}  // namespace
}  // namespace strata
