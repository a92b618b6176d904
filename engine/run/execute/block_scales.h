// Scales of what is packed in blocks. They are those of whole tensors' blocks, whatever part of these a rank
// has, so that every layout of ranks trains with the same numbers.
#pragma once

#include <cstddef>

#include "engine/config/choices.h"
#include "engine/run/checkpoint/state_access.h"
#include "optim/packing.h"

namespace strata {

/// Writes what pack() wants to find. Reads tensors on the calling thread, and works in the arena that this
/// runs in.
class BlockScales {
 public:
  /// `read` gives the values that are packed, of whole tensors; it is called only where the unit has a part
  /// of a block. REQUIRES: `unit` outlives this.
  BlockScales(const Unit& unit, Flat flat, ParameterFormat format, ReadTensor read);

  /// The scales of all blocks in one of the flat parameter's parts. REQUIRES: its elements in the packing's
  /// precision, and part_bytes of memory.
  void write(const Packing& packing, std::size_t part, const void* elements, std::byte* packed) const;

 private:
  class Whole;

  const Unit& unit_;
  Flat flat_;
  ParameterFormat format_;
  ReadTensor read_;
};

}  // namespace strata
