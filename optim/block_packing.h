// Numbers as codes of base/block_codes.h and back, in the host's memory: what bitsandbytes computes when it
// quantizes a weight (quantize_4bit, int8_vectorwise_quant).
#pragma once

#include <cstdint>

#include "base/block_codes.h"
#include "base/dtype.h"

namespace strata {

/// The scale of a block from the largest of block_magnitude() over its elements: that magnitude, but 0 if it
/// is less than 1e-38, and NaN if it is not finite. An int8 scale may differ from it by some last bits, so
/// that code 127 stands for the very scale: then numbers that were packed once give the same scale again.
float block_scale(BlockFormat format, float magnitude);

/// The largest magnitude of `count` elements; infinite or NaN if one of them is.
float block_magnitude(DType precision, const void* elements, std::int64_t count);

/// Elements whose first has `before` elements of its block before it, their codes, and the scales from that
/// block on.
struct BlockRun {
  BlockFormat format = BlockFormat::int8;
  std::int64_t block = 0, before = 0, count = 0;
};

/// `scales` are the blocks' scales. In the arena that the caller runs in.
void find_block_scales(const BlockRun& run, DType precision, const void* elements, float* scales);

/// Codes of the nearest numbers: of two that are as near nf4 takes the lower, int8 the even one. In the arena
/// that the caller runs in.
void encode_blocks(const BlockRun& run, DType precision, const void* elements, const float* scales,
                   std::uint8_t* codes);

/// Elements [first, first + count) of the run, rounded to `precision`, as fp32. One thread.
void decode_blocks(const BlockRun& run, DType precision, const std::uint8_t* codes, const float* scales,
                   std::int64_t first, std::int64_t count, float* values);

}  // namespace strata
