#include "engine/tools/profile/wait_flows.h"

#include <utility>

#include "base/nth.h"

namespace strata {

void WaitFlows::find(std::span<const InstructionTime> times) {
  ending_.assign(times.size(), 0);
  first_.assign(times.size(), -1);
  next_.assign(times.size(), -1);
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!times[i].has_run() || times[i].awaited < 0) continue;
    const auto awaited = times[i].awaited;
    if (!nth(times, awaited).has_run() || nth(times, awaited).end > times[i].start)
      continue;  // of the round before
    ending_[i] = ++last_;
    next_[i] = std::exchange(nth(first_, awaited), static_cast<std::int32_t>(i));
  }
}

void WaitFlows::add_to(SliceFields& fields, std::size_t instruction, const InstructionTime& time,
                       std::string_view awaited) const {
  if (!awaited.empty()) {
    fields.annotate("waited for", awaited);
    fields.annotate("waited (s)", time.waited);
  }
  for (std::int32_t to = first_[instruction]; to >= 0; to = nth(next_, to))
    fields.begin_flow(nth(ending_, to));
  if (ending_[instruction] > 0) fields.end_flow(ending_[instruction]);
}

Bytes WaitFlows::bytes() const {
  return static_cast<Bytes>(ending_.capacity() * sizeof(std::uint64_t) +
                            (first_.capacity() + next_.capacity()) * sizeof(std::int32_t));
}

}  // namespace strata
