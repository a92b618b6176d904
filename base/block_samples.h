// Checksums of blocks of a file as it is written, spread over all of it: what is read back is compared with
// them. Of up to 4 MiB they are all of it, of a larger file 2 to 4 MiB.
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
  /// From one block's begin to the next one's, in a file of so many bytes: it follows from them alone.
  static Bytes stride_of(Bytes file_bytes);

  /// What is written next.
  void add(std::span<const std::byte> bytes);

  /// By block, from the file's begin on; of one that the file's end cuts there is none.
  const std::vector<std::uint64_t>& checksums() const { return checksums_; }

 private:
  Bytes bytes_ = 0;
  Bytes stride_ = kBlock;
  std::vector<std::uint64_t> checksums_;
  std::unique_ptr<StreamingHash> block_;  ///< that is being written, if it is one of them
};

}  // namespace strata
