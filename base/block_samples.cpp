#include "base/block_samples.h"

#include <algorithm>

#include "base/nth.h"

namespace strata {
namespace {

constexpr Bytes kMostBlocks = 64;

}  // namespace

Bytes BlockSamples::stride_of(Bytes file_bytes) {
  Bytes stride = kBlock;
  while (file_bytes > kMostBlocks * stride) stride *= 2;
  return stride;
}

void BlockSamples::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (std::ssize(checksums_) == kMostBlocks && bytes_ == kMostBlocks * stride_) {
      // From here on every second one is left.
      for (std::size_t i = 0; i < checksums_.size() / 2; ++i) checksums_[i] = checksums_[2 * i];
      checksums_.resize(checksums_.size() / 2);
      stride_ *= 2;
    }
    const Bytes within = bytes_ - std::ssize(checksums_) * stride_;  // of the block, or before it
    const Bytes until = within < 0 ? -within : kBlock - within;
    const auto piece = slice(bytes, 0, std::min<Bytes>(until, std::ssize(bytes)));
    bytes = bytes.subspan(piece.size());
    bytes_ += std::ssize(piece);
    if (within < 0) continue;
    if (!block_) block_ = std::make_unique<StreamingHash>();
    block_->update(piece);
    if (std::ssize(piece) < until) continue;
    checksums_.push_back(block_->digest());
    block_.reset();
  }
}

}  // namespace strata
