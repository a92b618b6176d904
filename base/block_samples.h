// Checksums of blocks of a file, spread over all of it, made while it is written. Bytes that are read back
// are compared with them. They cover a file of up to 4 MiB whole, and 2 to 4 MiB of a larger one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"

namespace strata {

class BlockSamples {
 public:
  static constexpr Bytes kBlock = 64 * KiB;
  /// From one block's begin to the next one's, in a file of `file_bytes`. It follows from the size alone.
  static Bytes stride_of(Bytes file_bytes);

  /// Takes the bytes that are written next.
  void add(std::span<const std::byte> bytes);

  /// By block, from the file's beginning on. A block that the file's end cuts has none.
  const std::vector<std::uint64_t>& checksums() const { return checksums_; }

 private:
  Bytes bytes_ = 0;
  Bytes stride_ = kBlock;
  std::vector<std::uint64_t> checksums_;
  std::unique_ptr<StreamingHash> block_;  ///< that is being written, if it is one of them
};

}  // namespace strata
