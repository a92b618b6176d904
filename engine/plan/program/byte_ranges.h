// Ranges of bytes that are taken in an arena: a sorted list in which ranges that touch are one.
#pragma once

#include <boost/container/small_vector.hpp>

#include "base/bytes.h"

namespace strata {

class ByteRanges {
 public:
  struct Range {
    Bytes begin, end;
  };

  bool empty() const { return ranges_.empty(); }

  /// Takes [begin, end); some of it may be taken already. REQUIRES: begin < end.
  void add(Bytes begin, Bytes end);

  /// Goes through the ranges once, upwards. REQUIRES: add() is not called meanwhile.
  class Climb {
   public:
    explicit Climb(const ByteRanges& taken)
        : next_(taken.ranges_.data()), end_(next_ + taken.ranges_.size()) {}

    /// The lowest offset from `offset` on at which `bytes` are free. REQUIRES: `offset` is not below what the
    /// last call returned, and `bytes` are the same.
    Bytes lowest_free(Bytes offset, Bytes bytes) {
      while (next_ != end_ && next_->end <= offset) ++next_;
      for (; next_ != end_ && next_->begin < offset + bytes; ++next_) offset = next_->end;
      return offset;
    }

   private:
    const Range* next_;
    const Range* end_;
  };

 private:
  boost::container::small_vector<Range, 1> ranges_;
};

}  // namespace strata
