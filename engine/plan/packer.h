// Places for buffers in one arena, given one after another: each at the lowest offset that is free over its
// whole lifetime. In time about proportional to the buffers, so that programs of a million instructions are
// placed in seconds.
#pragma once

#include <map>
#include <vector>

#include "engine/plan/program.h"

namespace strata {

class Packer {
 public:
  /// For a program of so many instructions; nothing lies below `start`.
  Packer(std::size_t instructions, Bytes start);

  /// The offset of a buffer, which is then taken while it lives.
  Bytes place(Bytes bytes, const Lifetime& live);

 private:
  /// Buffers that begin at the same offset, so none lives with another; by the end of their lifetimes.
  struct Slot {
    struct Entry {
      std::int32_t first;
      Bytes end;
    };
    std::map<std::int32_t, Entry> by_last;
    Bytes lowest_end, highest_end;

    /// The highest end among buffers that live at some time of `live`; 0: there are none.
    Bytes end_within(const Lifetime& live) const;
  };

  /// A segment of the program's time, as a node of a binary tree: nothing is free below these offsets.
  struct Segment {
    Bytes lowest, highest;
    Bytes raised = 0;  ///< for what lies below the node, which has not been told
  };

  Bytes filled(std::size_t node, std::int32_t first, std::int32_t last, const Lifetime& live);
  void fill(std::size_t node, std::int32_t first, std::int32_t last, const Lifetime& live, Bytes offset,
            Bytes end);
  void raise(std::size_t node, Bytes end);
  void tell_halves(std::size_t node);

  std::int32_t last_;
  std::map<Bytes, Slot> slots_;
  Bytes largest_ = 0;  ///< buffer of all
  std::vector<Segment> filled_;
};

}  // namespace strata
