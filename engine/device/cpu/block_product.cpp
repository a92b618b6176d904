// Portable block products: fp32 fused multiply-adds; bf16 pairs are widened on the fly.
#include "engine/device/cpu/block_product.h"

#include <algorithm>

#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/block_product.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

// Vectors of one row of a block: 6 × 4 accumulators fill the 32 registers of AVX-512, 6 × 2 the 16 of its
// predecessors.
constexpr int kVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;

template <int kRows>
struct Accumulators {
  Float value[kRows][kVectors];

  HWY_INLINE void clear() {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) value[i][j] = hn::Zero(FloatTag());
    }
  }
  HWY_INLINE void store(const BlockProduct& block, std::int64_t row, std::int64_t column) const {
    const FloatTag d;
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        float* out = block.out + (row + i) * block.out_stride + column + j * lanes();
        hn::StoreU(block.accumulate ? hn::Add(value[i][j], hn::LoadU(d, out)) : value[i][j], d, out);
      }
    }
  }
};

template <int kRows>
HWY_INLINE void multiply(const BlockProduct& block, std::int64_t row, std::int64_t column,
                         const float* /*storage*/) {
  const FloatTag d;
  const auto* a = static_cast<const float*>(block.a) + row * block.a_stride;
  const float* b = static_cast<const float*>(block.panel) + column;
  Accumulators<kRows> sums;
  sums.clear();
  for (std::int64_t k = 0; k < block.depth; ++k, b += kPanelColumns) {
    Float columns[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) columns[j] = hn::LoadU(d, b + j * lanes());
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Float factor = hn::Set(d, a[i * block.a_stride + k]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums.value[i][j] = hn::MulAdd(factor, columns[j], sums.value[i][j]);
    }
  }
  sums.store(block, row, column);
}

template <int kRows>
HWY_INLINE void multiply(const BlockProduct& block, std::int64_t row, std::int64_t column,
                         const bfloat16* /*storage*/) {
  const FloatTag d;
  const WordTag words;
  const auto* a = static_cast<const bfloat16*>(block.a) + row * block.a_stride;
  const auto* b = static_cast<const std::uint32_t*>(block.panel) + column;
  Accumulators<kRows> sums;
  sums.clear();
  for (std::int64_t k = 0; k < block.depth; k += 2, b += kPanelColumns) {
    Float even[kVectors];
    Float odd[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const auto pairs = hn::LoadU(words, b + j * lanes());
      even[j] = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
      odd[j] = hn::BitCast(d, hn::And(pairs, hn::Set(words, 0xffff0000U)));
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Float even_factor = hn::Set(d, static_cast<float>(a[i * block.a_stride + k]));
      const Float odd_factor = hn::Set(d, static_cast<float>(a[i * block.a_stride + k + 1]));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        sums.value[i][j] = hn::MulAdd(odd_factor, odd[j], hn::MulAdd(even_factor, even[j], sums.value[i][j]));
      }
    }
  }
  sums.store(block, row, column);
}

template <int kRows, typename T>
void multiply_rows(const BlockProduct& block, std::int64_t row) {
  for (std::int64_t column = 0; column < kPanelColumns; column += kVectors * lanes()) {
    multiply<kRows>(block, row, column, static_cast<const T*>(nullptr));
  }
}

template <typename T>
void multiply_block(const BlockProduct& block) {
  std::int64_t row = 0;
  for (; row + kBlockRows <= block.rows; row += kBlockRows) multiply_rows<kBlockRows, T>(block, row);
  switch (block.rows - row) {
    case 5:
      return multiply_rows<5, T>(block, row);
    case 4:
      return multiply_rows<4, T>(block, row);
    case 3:
      return multiply_rows<3, T>(block, row);
    case 2:
      return multiply_rows<2, T>(block, row);
    case 1:
      return multiply_rows<1, T>(block, row);
    default:
      return;
  }
}

void multiply_fp32(const BlockProduct& block) {
  multiply_block<float>(block);
}
void multiply_bf16(const BlockProduct& block) {
  multiply_block<bfloat16>(block);
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(multiply_fp32);
HWY_EXPORT(multiply_bf16);

BlockProductFunction portable_block_product_for(DType dtype) {
  if (dtype == DType::fp32)
    return [](const BlockProduct& block) { HWY_DYNAMIC_DISPATCH(multiply_fp32)(block); };
  return [](const BlockProduct& block) { HWY_DYNAMIC_DISPATCH(multiply_bf16)(block); };
}

BlockProductFunction block_product_for(DType dtype) {
  if (dtype == DType::bf16) {
    if (BlockProductFunction fast = avx512_bf16_block_product()) return fast;
  }
  return portable_block_product_for(dtype);
}

}  // namespace strata
#endif
