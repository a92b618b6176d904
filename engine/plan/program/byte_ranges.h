// Ranges of bytes that are taken in an arena: a sorted list in which ranges that touch are one.
#pragma once

#include <boost/container/small_vector.hpp>

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
  boost::container::small_vector<Range, 1> ranges_;
};

}  // namespace strata
