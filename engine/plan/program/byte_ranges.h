// Ranges of bytes that are taken in an arena: a sorted list in which ranges that touch are one.
#pragma once

#include <vector>

#include "base/bytes.h"

namespace strata {

class ByteRanges {
 public:
  bool empty() const { return ranges_.empty(); }

  /// Takes [begin, end); some of it may be taken already. REQUIRES: begin < end.
  void add(Bytes begin, Bytes end);

  /// The lowest offset from `offset` on at which `bytes` are free.
  Bytes lowest_free(Bytes offset, Bytes bytes) const;

 private:
  struct Range {
    Bytes begin, end;
  };
  std::vector<Range> ranges_;
};

}  // namespace strata
