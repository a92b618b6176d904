#include "engine/run/execute/block_scales.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/block_codes.h"
#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/model/graph/graph_shape.h"
#include "engine/model/model.h"
#include "engine/model/packing.h"
#include "optim/block_packing.h"

namespace strata {

/// The scales of a whole tensor's blocks, which are asked for in their order.
class BlockScales::Whole {
 public:
  Whole(const TensorSpec& tensor, std::int64_t block, BlockFormat format, DType precision,
        const ReadTensor& read)
      : tensor_(tensor), block_(block), format_(format), precision_(precision), read_(read) {}

  std::int64_t block() const { return block_; }

  /// That of the block with element `element`. Reads it, with `ahead` elements behind it.
  float at(std::int64_t element, std::int64_t ahead = 0) {
    const std::int64_t number = element / block_;
    if (number < first_ || number >= first_ + std::ssize(scales_)) read_from(number, ahead);
    return nth(scales_, number - first_);
  }

 private:
  void read_from(std::int64_t number, std::int64_t ahead) {
    const std::int64_t begin = number * block_;
    const std::int64_t end =
        std::min(tensor_.whole_elements(), begin + std::max(block_, ahead / block_ * block_));
    resize(values_, end - begin);
    read_(tensor_, begin, values_);
    with_storage_type(precision_, [&]<typename T>(T) {
      std::ranges::transform(values_, values_.begin(),
                             [](float value) { return static_cast<float>(T(value)); });
    });
    first_ = number;
    resize(scales_, (end - begin + block_ - 1) / block_);
    find_block_scales({format_, block_, 0, end - begin}, DType::fp32, values_.data(), scales_.data());
  }

  const TensorSpec& tensor_;
  std::int64_t block_;
  BlockFormat format_;
  DType precision_;
  const ReadTensor& read_;
  std::int64_t first_ = 0;
  std::vector<float> values_, scales_;  ///< what was read last, and its blocks' from number `first_` on
};

BlockScales::BlockScales(const Unit& unit, Flat flat, ParameterFormat format, ReadTensor read)
    : unit_(unit), flat_(flat), format_(format), read_(std::move(read)) {}

void BlockScales::write(const Packing& packing, std::size_t part, const void* elements,
                        std::byte* packed) const {
  for (const PackedStretch& stretch : packing.parts[part]) {
    if (!stretch.has_blocks()) continue;
    auto* scales = reinterpret_cast<float*>(packed + stretch.scales_at);
    const std::int64_t first = static_cast<std::int64_t>(part) * packing.part_elements + stretch.first;
    const std::vector<TensorRun> runs = runs_in(unit_, {first, stretch.count, flat_});
    const TensorSpec& tensor = *runs.front().tensor;
    Whole whole(tensor, whole_block(tensor, format_), stretch.block_format(), packing.precision, read_);
    if (stretch.block == whole.block()) {
      const auto* from = static_cast<const std::byte*>(elements) + stretch.first * size_of(packing.precision);
      find_block_scales({stretch.block_format(), stretch.block, stretch.before, stretch.count},
                        packing.precision, from, scales);
      // The borders of a part may cut its first block and its last.
      if (stretch.before > 0) scales[0] = whole.at(runs.front().first);
      const std::int64_t end = runs.back().last;
      if (end % whole.block() != 0 && end < tensor.whole_elements())
        scales[stretch.blocks() - 1] = whole.at(end - 1);
    } else {
      for (const TensorRun& run : runs) {
        for (std::int64_t at = run.at; at < run.at + run.count();) {
          const std::int64_t number = (stretch.before + at) / stretch.block;
          scales[number] = whole.at(run.first + at - run.at, kLargestRead);
          at = (number + 1) * stretch.block - stretch.before;
        }
      }
    }
  }
}

}  // namespace strata
