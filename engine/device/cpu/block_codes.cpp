#include "base/block_codes.h"

#include <algorithm>
#include <cassert>

#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/cpu/context.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/block_codes.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"
#include "engine/device/state_calls.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

/// Elements [begin, end) of one block.
template <BlockFormat format, typename T>
HWY_INLINE void decode_block(const std::uint8_t* codes, float scale, std::int64_t begin, std::int64_t end,
                             T* to) {
  HWY_ALIGN float numbers[16];
  if constexpr (format == BlockFormat::nf4)
    for (int code = 0; code < 16; ++code) numbers[code] = block_number(format, code, scale);
  const std::int64_t step = lanes();
  HWY_ALIGN float values[16];
  for (std::int64_t i = begin; i < end; i += step) {
    const std::int64_t count = std::min(step, end - i);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::uint8_t code = code_at(format, codes, i + k);
      if constexpr (format == BlockFormat::nf4) {
        values[k] = numbers[code];
      } else {
        values[k] = block_number(format, code, scale);
      }
    }
    if (count == step) {
      store(load(values), to + i);
    } else {
      Tail{count}.store(load(values), to + i);
    }
  }
}

/// Elements [begin, end) of the call's.
void decode_elements(const DecodeBlocks& call, std::int64_t begin, std::int64_t end) {
  with_storage_type(call.out.dtype, [&]<typename T>(T) HWY_ATTR {
    T* to = call.out.row<T>(0);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t block = (call.first + i) / call.block;
      const std::int64_t last = std::min(end, (block + 1) * call.block - call.first);
      const float scale = nth(call.scales, block);
      if (call.format == BlockFormat::int8) {
        decode_block<BlockFormat::int8>(call.codes.data(), scale, i, last, to);
      } else {
        decode_block<BlockFormat::nf4>(call.codes.data(), scale, i, last, to);
      }
      i = last;
    }
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(decode_elements);

}  // namespace

void run_on_cpu(CpuContext& context, const DecodeBlocks& call) {
  assert(call.out.rows == 1 && std::ssize(call.codes) == code_bytes(call.format, call.out.columns));
  context.pool.for_ranges(call.out.columns, kTaskElements, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(decode_elements)(call, begin, end);
  });
}

}  // namespace strata
#endif
