#include "engine/input/data/row_keys.h"

#include "base/hash.h"

namespace strata {

RowKeys::RowKeys(std::uint64_t seed) : random_(seed, hash_text("dropout")) {}

void RowKeys::fill(std::int64_t first, std::int64_t samples, std::span<std::int32_t> keys,
                   const ContextPart& part) const {
  constexpr std::uint32_t kNotNegative = 0x7fffffff;
  const std::int64_t rows = std::ssize(keys) / samples, sequence = rows * part.ranks;
  const Positions positions = part.positions(rows);
  auto next = keys.begin();
  for (std::int64_t sample = first; sample < first + samples; ++sample) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto token = static_cast<std::uint64_t>(sample * sequence + positions.at(row));
      *next++ = static_cast<std::int32_t>(random_.words(token)[0] & kNotNegative);
    }
  }
}

}  // namespace strata
