#include "engine/checkpoint/rounded_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/storage_type.h"
#include "engine/model/packing.h"
#include "optim/block_packing.h"

namespace strata {
namespace {

/// Whole blocks, in place.
void round_blocks(BlockFormat format, std::int64_t block, DType precision, std::span<float> values) {
  const BlockRun run = {format, block, 0, std::ssize(values)};
  std::vector<float> scales(static_cast<std::size_t>((run.count + block - 1) / block));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(code_bytes(format, run.count)));
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
    const std::int64_t block = whole_block(tensor, format);
    const std::int64_t begin = first / block * block;
    const std::int64_t end =
        std::min(tensor.whole_elements(), (first + std::ssize(out) + block - 1) / block * block);
    std::vector<float> values(static_cast<std::size_t>(end - begin));
    read(tensor, begin, values);
    round_blocks(format == ParameterFormat::int8 ? BlockFormat::int8 : BlockFormat::nf4, block, precision,
                 values);
    std::copy_n(values.begin() + (first - begin), out.size(), out.begin());
  };
}

}  // namespace strata
