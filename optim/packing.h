// A unit's flat parameter in fewer bytes: as it is kept and travels, while passes read it in the run's
// precision. Matrices are codes beside scales, others stay as they are. Codes of e4m3 have one scale a
// matrix: products round these numbers so anyway, so what is made of them again has the products' bits. Codes
// of base/block_codes.h have a scale for each block of neighbours, and stand for other numbers than those
// that were packed, which stay the same if they are packed again. Plain values, and what is done with them in
// the host's memory on the calling thread's arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/block_codes.h"
#include "base/bytes.h"
#include "base/dtype.h"

namespace strata {

/// Where stretches and scales begin in the packed form: at cache lines.
constexpr Bytes kPackedAlignment = 64;

/// What a stretch of elements is in its packed form.
enum class PackedAs : std::uint8_t { exact, float8, int8, nf4 };

/// Neighbouring elements of a part of a flat parameter, and where they lie in its packed form.
struct PackedStretch {
  std::int64_t first = 0, count = 0;  ///< counted in the part
  Bytes at = 0;                       ///< of the first code, or of the first element as it is
  PackedAs as = PackedAs::exact;
  Bytes scales_at = 0;      ///< of the Float8Factors, or of the blocks' scales (fp32); behind the codes
  std::int64_t block = 0;   ///< elements of a block, if it has blocks
  std::int64_t before = 0;  ///< elements of its first block that lie before the stretch

  bool has_codes() const { return as != PackedAs::exact; }
  bool has_blocks() const { return as == PackedAs::int8 || as == PackedAs::nf4; }
  BlockFormat block_format() const { return as == PackedAs::int8 ? BlockFormat::int8 : BlockFormat::nf4; }
  /// Blocks that it has elements of.
  std::int64_t blocks() const { return (before + count + block - 1) / block; }
  friend bool operator==(const PackedStretch&, const PackedStretch&) = default;
};

/// How all of a flat parameter is packed: in parts of equally many elements and bytes, one of each rank that
/// shares it out. Each part has scales of its own. What is in no stretch is padding and has no meaning.
struct Packing {
  std::int64_t part_elements = 0;
  Bytes part_bytes = 0;           ///< 0: it is not packed
  DType precision = DType::bf16;  ///< of the elements; bf16 if some become codes of e4m3
  std::vector<std::vector<PackedStretch>> parts;

  Bytes bytes() const { return part_bytes * static_cast<Bytes>(parts.size()); }
  explicit operator bool() const { return part_bytes > 0; }
};

/// The packed form of part number `part`, but for the scales of blocks, which are in it already. REQUIRES:
/// the part's elements in the packing's precision, and part_bytes of memory.
void pack(const Packing& packing, std::size_t part, const void* elements, std::byte* packed);

/// Elements [first, first + count) of a part as fp32, zero where there is padding. One thread.
void read_packed(const Packing& packing, std::size_t part, const std::byte* packed, std::int64_t first,
                 std::span<float> values);

}  // namespace strata
