#include "engine/plan/packer.h"

#include <algorithm>

namespace strata {

Bytes Packer::Slot::end_within(const Lifetime& live) const {
  Bytes end = 0;
  for (auto entry = by_last.lower_bound(live.first);
       entry != by_last.end() && entry->second.first <= live.last; ++entry) {
    end = std::max(end, entry->second.end);
    if (lowest_end == highest_end) break;
  }
  return end;
}

Packer::Packer(std::size_t instructions, Bytes start)
    : last_(static_cast<std::int32_t>(std::max<std::size_t>(instructions, 1)) - 1),
      filled_(4 * (static_cast<std::size_t>(last_) + 1), {start, start}) {}

Bytes Packer::place(Bytes bytes, const Lifetime& live) {
  // Where some moment leaves nothing free below, no place below can be free for longer.
  Bytes offset = filled(1, 0, last_, live);
  for (auto slot = slots_.lower_bound(offset - largest_); slot != slots_.end(); ++slot) {
    if (slot->first >= offset + bytes) break;
    offset = std::max(offset, slot->second.end_within(live));
  }
  if (bytes == 0) return offset;
  const Bytes end = offset + bytes;
  largest_ = std::max(largest_, bytes);
  Slot& slot = slots_.try_emplace(offset, Slot{{}, end, end}).first->second;
  slot.by_last.emplace(live.last, Slot::Entry{live.first, end});
  slot.lowest_end = std::min(slot.lowest_end, end);
  slot.highest_end = std::max(slot.highest_end, end);
  fill(1, 0, last_, live, offset, end);
  return offset;
}

void Packer::raise(std::size_t node, Bytes end) {
  Segment& segment = filled_[node];
  segment.lowest = std::max(segment.lowest, end);
  segment.highest = std::max(segment.highest, end);
  segment.raised = std::max(segment.raised, end);
}

void Packer::tell_halves(std::size_t node) {
  for (const std::size_t half : {2 * node, 2 * node + 1}) raise(half, filled_[node].raised);
  filled_[node].raised = 0;
}

/// The highest within the lifetime.
Bytes Packer::filled(std::size_t node, std::int32_t first, std::int32_t last, const Lifetime& live) {
  if (live.first <= first && last <= live.last) return filled_[node].highest;
  tell_halves(node);
  const std::int32_t middle = first + (last - first) / 2;
  Bytes result = 0;
  if (live.first <= middle) result = filled(2 * node, first, middle, live);
  if (live.last > middle) result = std::max(result, filled(2 * node + 1, middle + 1, last, live));
  return result;
}

/// Moments at which all is taken up to a new buffer are filled up to its end.
void Packer::fill(std::size_t node, std::int32_t first, std::int32_t last, const Lifetime& live, Bytes offset,
                  Bytes end) {
  if (live.last < first || last < live.first || filled_[node].highest < offset) return;
  if (live.first <= first && last <= live.last && filled_[node].lowest >= offset) return raise(node, end);
  if (first == last) return;
  tell_halves(node);
  const std::int32_t middle = first + (last - first) / 2;
  fill(2 * node, first, middle, live, offset, end);
  fill(2 * node + 1, middle + 1, last, live, offset, end);
  filled_[node].lowest = std::min(filled_[2 * node].lowest, filled_[2 * node + 1].lowest);
  filled_[node].highest = std::max(filled_[2 * node].highest, filled_[2 * node + 1].highest);
}

}  // namespace strata
