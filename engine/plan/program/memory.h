// Memory: every buffer gets its place in its tier's arena from its lifetime, so nothing is allocated while a
// step runs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/program/program.h"

namespace strata {

/// Which buffers take their places first.
/// by_size: the largest, and of one size in the order of the program's buffers.
/// by_end: the largest power of two, and of one power those that end first.
/// Either may need less memory. If memory is full while buffers end one after another, as gradients do in a
/// sweep of updates, free bytes lie together only if the buffers that end first lie lowest.
enum class PlaceOrder : std::uint8_t { by_size, by_end };

/// Sets every offset. Persistent buffers come first, in the order of the program's buffers, so that all
/// programs of a run agree on their places. The others follow, largest first, each at the lowest place that
/// is free over its whole lifetime. Buffers that are pinned keep their places, and all others take the lowest
/// places that these leave.
Program place(const Program& program);
/// The same for one tier; others keep their places. What a buffer leaves is taken by others `pause`
/// instructions later at the earliest, be that in the next round: what comes then need not wait for what is
/// done with it. Small buffers share their places with no others, as long as all of them together are less
/// than a thousandth of the tier. Returns the end of the highest buffer that is ever touched.
Bytes place_tier(Program& program, Tier tier, PlaceOrder order = PlaceOrder::by_size, std::int32_t pause = 0);

/// The offset of every buffer.
std::vector<Bytes> places_of(const Program& placed);
/// Gives every buffer the offset that places_of() told of this program.
void put_back(Program& program, const std::vector<Bytes>& places);

/// What one tier of a placed program needs.
struct TierUse {
  Bytes peak_bytes = 0;  ///< end of the highest buffer: the arena's size
  Bytes live_bytes = 0;  ///< largest sum of live buffers; the rest of the peak is fragmentation
  EnumArray<BufferKind, Bytes> by_kind = {};  ///< live bytes at the moment of live_bytes
};
TierUse tier_use(const Program& placed, Tier tier);

/// Bytes that each tier may hold.
using TierBudgets = EnumArray<Tier, Bytes>;
constexpr bool has_drives(const TierBudgets& bytes) {
  return bytes[Tier::nvme] > 0;
}

/// Throws std::logic_error naming the instruction and buffer if a placed program is wrong:
/// - a buffer is read before it was written, or in more steps than it is written in;
/// - two live buffers overlap, or a buffer leaves its budget;
/// - an operand is larger than its buffer, or a transfer's ends differ.
void verify(const Program& placed, const TierBudgets& budgets);

}  // namespace strata
