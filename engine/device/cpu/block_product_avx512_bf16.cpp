// Block products with the AVX-512 BF16 dot-product instruction, which Highway 1.0 does not offer. 6 rows × 64
// columns keep 24 accumulators, 4 panel vectors and one broadcast in 29 of 32 registers: 24 dot products for
// 10 loads.
#include "engine/device/cpu/block_product.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "base/vector_target.h"

#define STRATA_TARGET __attribute__((target("avx512f,avx512bf16")))

namespace strata {
namespace {

constexpr int kVectors = kPanelColumns / 16;

template <int kRows>
STRATA_TARGET inline __attribute__((always_inline)) void multiply_rows(const BlockProduct& block,
                                                                       std::int64_t row) {
  const std::int64_t stride = block.a_stride;
  const auto* a = static_cast<const bfloat16*>(block.a) + row * stride;
  const auto* b = static_cast<const bfloat16*>(block.panel);
  float* out = block.out + row * block.out_stride;
  const std::int64_t out_stride = block.out_stride;
  if (block.accumulate) {  // the sums so far arrive while the new ones are formed
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kVectors; ++j) __builtin_prefetch(out + i * out_stride + j * 16, 1);
    }
  }
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  for (std::int64_t k = 0; k < block.depth; k += 2, b += 2 * kPanelColumns) {
    __m512bh columns[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      columns[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + j * 32));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int pair = 0;
      std::memcpy(&pair, a + i * stride + k, sizeof(pair));
      const auto factors = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], factors, columns[j]);
    }
  }
  if (block.accumulate) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        sums[i][j] = _mm512_add_ps(sums[i][j], _mm512_loadu_ps(out + i * out_stride + j * 16));
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(out + i * out_stride + j * 16, sums[i][j]);
  }
}

STRATA_TARGET void multiply_block(const BlockProduct& block) {
  std::int64_t row = 0;
  for (; row + kBlockRows <= block.rows; row += kBlockRows) multiply_rows<kBlockRows>(block, row);
  switch (block.rows - row) {
    case 5:
      return multiply_rows<5>(block, row);
    case 4:
      return multiply_rows<4>(block, row);
    case 3:
      return multiply_rows<3>(block, row);
    case 2:
      return multiply_rows<2>(block, row);
    case 1:
      return multiply_rows<1>(block, row);
    default:
      return;
  }
}

}  // namespace

BlockProductFunction avx512_bf16_block_product() {
  return vector_target() >= VectorTarget::avx512_bf16 ? multiply_block : nullptr;
}

}  // namespace strata

#else

namespace strata {
BlockProductFunction avx512_bf16_block_product() {
  return nullptr;
}
}  // namespace strata

#endif
