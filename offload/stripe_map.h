// Where each byte of a store lies: blocks dealt out to the files in a fixed cycle, to each as many as its
// disk is fast.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"

namespace strata {

/// What one operation moves, and what goes to one file before the next has its turn. By measurement:
/// bench/history.
constexpr Bytes kStoreBlock = 2 * MiB;

/// Bytes of the store that lie together in one file.
struct StripePiece {
  Bytes offset;  ///< in the store
  int file;
  Bytes file_offset;
  Bytes length;
};

/// A value: the same bytes and weights always give the same map.
class StripeMap {
 public:
  /// One weight > 0 per file; only their ratios count, rounded to 64ths of the whole. Each file gets
  /// something.
  StripeMap(Bytes bytes, std::span<const double> weights);

  Bytes bytes() const { return bytes_; }
  int files() const { return static_cast<int>(blocks_per_cycle_.size()); }
  /// What the file holds; all together bytes().
  Bytes file_bytes(int file) const;
  /// The file's blocks in each cycle / all blocks of a cycle.
  double fraction(int file) const;

  /// From `offset` to the end of its block, or to `end`.
  StripePiece piece(Bytes offset, Bytes end) const;
  /// The first offset from `offset` on that lies in `file`; `end` if there is none before it.
  Bytes next_in(int file, Bytes offset, Bytes end) const;

 private:
  struct Turn {
    int file;
    int index;  ///< how many turns the file had before in the cycle
  };
  std::int64_t cycle() const { return std::ssize(turns_); }

  Bytes bytes_;
  std::vector<Turn> turns_;
  std::vector<int> blocks_per_cycle_;  ///< of each file
};

}  // namespace strata
