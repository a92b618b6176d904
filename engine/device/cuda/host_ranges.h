// The host memory that a GPU's streams copy from and to, in the pieces in which it was locked or could not
// be. A copy must not cross the border of a piece. Needs no CUDA. Any thread may call.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>

#include "base/bytes.h"

namespace strata {

class HostRanges {
 public:
  /// REQUIRES: it lies beside all others.
  void add(std::span<std::byte> piece, bool is_locked);
  /// The piece that begins here.
  void remove(const std::byte* first);

  /// The first bytes of a copy that go one way.
  struct Run {
    Bytes bytes = 0;
    bool is_staged = false;  ///< through locked buffers, since this memory could not be locked
  };
  /// REQUIRES: bytes > 0. Memory of no piece is copied as it is: CUDA takes any, if slowly.
  Run first_run(const std::byte* host, Bytes bytes) const;

 private:
  struct Piece {
    Bytes bytes;
    bool is_locked;
  };
  mutable std::mutex mutex_;
  std::map<const std::byte*, Piece> pieces_;
};

}  // namespace strata
