#include "engine/run/checkpoint/rounded_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/config/choices.h"
#include "engine/model/packing.h"
#include "optim/block_packing.h"

namespace strata {
namespace {

/// Whole blocks, in place.
void round_blocks(BlockFormat format, std::int64_t block, DType precision, std::span<float> values) {
  const BlockRun run = {format, block, 0, std::ssize(values)};
  auto scales = sized<std::vector<float>>((run.count + block - 1) / block);
  auto codes = sized<std::vector<std::uint8_t>>(code_bytes(format, run.count));
  with_storage_type(precision, [&]<typename T>(T) {
    std::vector<T> elements(values.size());
    std::ranges::transform(values, elements.begin(), [](float value) { return T(value); });
    find_block_scales(run, precision, elements.data(), scales.data());
    encode_blocks(run, precision, elements.data(), scales.data(), codes.data());
  });
  decode_blocks(run, precision, codes.data(), scales.data(), 0, run.count, values.data());
}

}  // namespace

ReadTensor read_rounded_blocks(ReadTensor read, ParameterFormat format, DType precision) {
  return [=, read = std::move(read)](const TensorSpec& tensor, std::int64_t first, std::span<float> out) {
    if (!tensor.is_linear) return read(tensor, first, out);
    const std::int64_t block = whole_block(tensor, format), whole = tensor.whole_elements();
    const std::int64_t at_once = std::max(block, kLargestRead / block * block);
    const std::int64_t last = first + std::ssize(out);
    std::vector<float> values;
    for (std::int64_t begin = first / block * block; begin < last; begin += at_once) {
      resize(values, std::min(at_once, whole - begin));
      read(tensor, begin, values);
      round_blocks(format == ParameterFormat::int8 ? BlockFormat::int8 : BlockFormat::nf4, block, precision,
                   values);
      const std::int64_t from = std::max(first, begin), to = std::min(last, begin + std::ssize(values));
      std::copy_n(values.begin() + (from - begin), to - from, out.begin() + (from - first));
    }
  };
}

ReadTensor as_trained(ReadTensor base, const Manifest& manifest) {
  if (!base || !has_blocks(manifest.base->frozen_as)) return base;
  return read_rounded_blocks(std::move(base), manifest.base->frozen_as, manifest.progress.precision.storage);
}

}  // namespace strata
