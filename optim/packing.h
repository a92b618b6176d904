// A unit's flat parameter in fewer bytes: as it is kept and travels, while passes read it in the run's
// precision. Numbers that products round to e4m3 anyway are codes of that beside a scale per matrix, so what
// is made of them again has the products' bits; others stay as they are. Plain values, and what is done with
// them in the host's memory on the calling thread's arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace strata {

/// Where stretches and scales begin in the packed form: at cache lines.
constexpr Bytes kPackedAlignment = 64;

/// Neighbouring elements of a part of a flat parameter, and where they lie in its packed form.
struct PackedStretch {
  std::int64_t first = 0, count = 0;  ///< counted in the part
  Bytes at = 0;                       ///< of the first code, or of the first element of bf16
  Bytes factors_at = -1;              ///< of the Float8Factors of codes, or -1: there are none

  bool has_codes() const { return factors_at >= 0; }
  friend bool operator==(const PackedStretch&, const PackedStretch&) = default;
};

/// How all of a flat parameter is packed: in parts of equally many elements and bytes, one of each rank that
/// shares it out. Each part has scales of its own. What is in no stretch is padding and has no meaning.
struct Packing {
  std::int64_t part_elements = 0;
  Bytes part_bytes = 0;  ///< 0: it is not packed
  std::vector<std::vector<PackedStretch>> parts;

  Bytes bytes() const { return part_bytes * static_cast<Bytes>(parts.size()); }
  explicit operator bool() const { return part_bytes > 0; }
};

/// The packed form of part number `part`. REQUIRES: its elements, and part_bytes of memory.
void pack(const Packing& packing, std::size_t part, const bfloat16* elements, std::byte* packed);

/// All that is in a part's packed form, into its elements.
void unpack(const Packing& packing, std::size_t part, const std::byte* packed, bfloat16* elements);

/// Elements [first, first + count) of a part as fp32, zero where there is padding. One thread.
void read_packed(const Packing& packing, std::size_t part, const std::byte* packed, std::int64_t first,
                 std::span<float> values);

}  // namespace strata
