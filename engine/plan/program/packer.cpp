#include "engine/plan/program/packer.h"

#include <algorithm>
#include <limits>

namespace strata {

Packer::Packer(const std::vector<Lifetime>& lifetimes, Bytes start) : start_(start) {
  moments_.reserve(lifetimes.size());
  for (const Lifetime& live : lifetimes) {
    moments_.push_back(live.first);
    if (live.wraps()) moments_.push_back(0);
  }
  std::ranges::sort(moments_);
  moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
  std::size_t above_leaves = 0;
  for (; leaves_ < static_cast<std::int32_t>(moments_.size()); leaves_ *= kFan)
    above_leaves += static_cast<std::size_t>(leaves_);
  periods_.resize(above_leaves + std::max<std::size_t>(moments_.size(), 1));
}

template <typename Visit>
void Packer::for_each_period(std::int32_t first, std::int32_t last, const Visit& visit) {
  const auto descend = [&](const auto& self, std::size_t period, std::int32_t begin,
                           std::int32_t moments) -> void {
    const bool is_whole = first <= begin && begin + moments - 1 <= last;
    visit(periods_[period], is_whole);
    if (is_whole) return;
    const std::int32_t part = moments / kFan;
    const std::int32_t to = std::min((last - begin) / part, kFan - 1);
    for (std::int32_t i = std::max(first - begin, 0) / part; i <= to; ++i)
      self(self, period * kFan + 1 + static_cast<std::size_t>(i), begin + i * part, part);
  };
  descend(descend, 0, 0, leaves_);
}

template <typename Visit>
void Packer::for_each_period(const Lifetime& live, const Visit& visit) {
  constexpr std::int32_t kEver = std::numeric_limits<std::int32_t>::max();
  live.for_each_stretch(kEver, [&](std::int32_t first, std::int32_t last) {
    const auto from = std::ranges::lower_bound(moments_, first) - moments_.begin();
    const auto to = std::ranges::upper_bound(moments_, last) - moments_.begin() - 1;
    for_each_period(static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), visit);
  });
}

Bytes Packer::lowest_free(const Lifetime& live, Bytes bytes, Bytes least) {
  taken_.clear();
  for_each_period(live, [&](const Period& period, bool is_whole) {
    if (!period.throughout.empty()) taken_.emplace_back(period.throughout);
    if (is_whole && !period.within.empty()) taken_.emplace_back(period.within);
  });
  Bytes offset = std::max(start_, least);
  // Done when all in a row leave it where it is.
  const std::size_t last = taken_.size() - 1;
  for (std::size_t i = 0, agreed = 0; agreed < taken_.size(); i = i == last ? 0 : i + 1) {
    const Bytes free = taken_[i].lowest_free(offset, bytes);
    agreed = free == offset ? agreed + 1 : 0;
    offset = free;
  }
  return offset;
}

Bytes Packer::place(Bytes bytes, const Lifetime& live, Bytes least) {
  const Bytes offset = lowest_free(live, bytes, least);
  take(offset, bytes, live);
  return offset;
}

void Packer::take(Bytes offset, Bytes bytes, const Lifetime& live) {
  if (bytes == 0) return;
  for_each_period(live, [&](Period& period, bool is_whole) {
    (is_whole ? period.throughout : period.within).add(offset, offset + bytes);
  });
}

}  // namespace strata
