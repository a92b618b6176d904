// Both routes of a bf16 product agree: machines without bf16 vectors take one that most of our machines never
// do.
#include "engine/device/cpu/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/device/scenario.h"

namespace strata {
namespace {

std::vector<float> multiply(TileProduct product, Bf16Route route) {
  OperandMemory a = random_operand(1, DType::bf16, 40, 50);
  OperandMemory b = random_operand(2, DType::bf16, 50, 60);
  OperandMemory bias = random_operand(3, DType::bf16, 1, 60);
  OperandMemory out = random_operand(4, product.out_dtype, 40, 60);
  std::vector<std::byte> scratch(static_cast<std::size_t>(scratch_bytes(product, route)) + kAlignment);
  auto* aligned = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<Bytes>(scratch.data())));
  multiply_tile(product, a.view().data, b.view().data, out.view().data,
                product.bias ? bias.view().data : nullptr, aligned, route);
  std::vector<float> values;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 60; ++j) values.push_back(static_cast<float>(out.at(i, j)));
  }
  return values;
}

TEST(TileProduct, GivesTheSameThroughFp32AsNatively) {
  OperandMemory a = random_operand(1, DType::bf16, 40, 50);
  OperandMemory b = random_operand(2, DType::bf16, 50, 60);
  OperandMemory out = random_operand(4, DType::fp32, 40, 60);
  for (const bool transposed : {false, true}) {
    for (const bool accumulate : {false, true}) {
      for (const bool bias : {false, true}) {
        for (const DType out_dtype : {DType::fp32, DType::bf16}) {
          TileProduct product{.m = 37, .n = 33, .k = 29, .dtype = DType::bf16, .out_dtype = out_dtype};
          product.accumulate = accumulate;
          product.bias = bias;
          product.a_row = transposed ? 1 : a.view().stride;
          product.a_column = transposed ? a.view().stride : 1;
          product.b_row = b.view().stride;
          product.b_column = 1;
          product.out_row = out.view().stride;
          const std::vector<float> native = multiply(product, bf16_route_of_this_machine());
          const std::vector<float> upcast = multiply(product, Bf16Route::through_fp32);
          double difference = 0, norm = 0;
          for (std::size_t i = 0; i < native.size(); ++i) {
            difference += std::pow(native[i] - upcast[i], 2);
            norm += std::pow(native[i], 2);
          }
          EXPECT_LE(std::sqrt(difference), (out_dtype == DType::fp32 ? 1e-6 : 4e-3) * std::sqrt(norm));
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
