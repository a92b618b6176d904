// What the two engines of a store differ in: how one operation on one block is started, and how its result is
// had. Splitting, sharing the disks, trying again and checking belong to Transfer, once for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace strata {

enum class Direction { read, write };

/// Offsets, lengths and addresses are multiples of kStoreAlignment.
struct BlockOperation {
  Direction direction;
  int descriptor;
  Bytes offset;  ///< in the file
  std::byte* memory;
  Bytes length;
};

struct BlockResult {
  int slot;
  std::int64_t result;  ///< bytes, or a negated errno
};

/// Used by the thread that made it alone. REQUIRES: nothing in flight when it goes.
class BlockEngine {
 public:
  virtual ~BlockEngine() = default;
  /// `slot` < the number of slots it was made with, and not in flight. May begin only with submit().
  virtual void start(int slot, const BlockOperation& operation) = 0;
  virtual void submit() = 0;
  /// Waits for at least one result and returns how many it put into `results`. REQUIRES: something in flight,
  /// and room for a result of every slot. Submits first.
  virtual std::size_t reap(std::span<BlockResult> results) = 0;
};

}  // namespace strata
