// What a store's pages must contain: a checksum of each page that was written. Costs 8 bytes of memory per
// page.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/arena.h"
#include "base/bytes.h"

namespace strata {

/// Threads may use it at once for different pages.
class PageChecksums {
 public:
  struct Mismatch {
    Bytes offset;  ///< of the page, in the store
    bool never_written;
  };

  explicit PageChecksums(Bytes store_bytes);

  /// Offsets and sizes are multiples of kStoreAlignment, which is the size of a page.
  void record(Bytes offset, std::span<const std::byte> written);
  /// The first page that does not contain what was recorded.
  std::optional<Mismatch> check(Bytes offset, std::span<const std::byte> read) const;

 private:
  Arena memory_;
  std::span<std::uint64_t> sums_;  ///< XXH3 of each page; kNeverWritten
};

}  // namespace strata
