#include "engine/plan/passes/residency.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/rounds.h"

namespace strata {

Residency::Residency(const Program& plain, const TierPair& pair)
    : plain_(plain), pair_(pair), near_(find_near_use(plain, pair)) {
  find_visits();
  list_last_uses();
  previous_.assign(visits_.size(), -1);
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    const std::int32_t next = visits_[v].next;
    if (next >= 0) nth(previous_, next) = static_cast<std::int32_t>(v);
  }
}

NearBytes Residency::needs() const {
  NearBytes result;
  for (std::size_t i = 0; i < near_.visiting.size(); ++i) {
    result.smallest = std::max(result.smallest, near_.staying[i] + near_.visiting[i]);
    result.largest_visit = std::max(result.largest_visit, near_.visiting[i]);
  }
  return result;
}

std::int32_t Residency::visit_for(BufferId instance, std::vector<std::int32_t>& visit_of) {
  std::int32_t& id = nth(visit_of, instance);
  if (id < 0) {
    id = static_cast<std::int32_t>(visits_.size());
    visits_.push_back({.instance = instance});
  }
  return id;
}

std::int32_t& Residency::Latest::of(BufferId home, std::int32_t model) {
  First& first = nth(first_, home);
  if (first.model < 0) first.model = model;
  return first.model == model ? first.visit : others_.try_emplace({home, model}, -1).first->second;
}

/// In the plain program every instance has at most one fetch, exactly one use and at most one write-back, in
/// this order. What is gathered has more uses.
void Residency::find_visits() {
  std::vector<std::int32_t> visit_of(plain_.buffers.size(), -1);
  Latest latest(plain_.buffers.size());
  // For homes of shards: the latest visit of the whole, if that is of what the shards are now.
  Latest latest_whole(plain_.buffers.size());
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    const Instruction& instruction = plain_.instructions[i];
    const auto position = static_cast<std::int32_t>(i);
    if (instruction.operation == pair_.fetch && is_visitor(instruction.writes[0].buffer)) {
      const std::int32_t id = visit_for(instruction.writes[0].buffer, visit_of);
      visit(id).fetch = position;
      visit(id).home = instruction.reads[0].buffer;
      std::int32_t& previous = latest.of(visit(id).home, instruction.model);
      if (previous >= 0 && may_lead_to(visit(previous), position)) visit(previous).next = id;
      previous = id;
    } else if (instruction.operation == pair_.write_back && is_visitor(instruction.reads[0].buffer)) {
      const std::int32_t id = visit_for(instruction.reads[0].buffer, visit_of);
      visit(id).write_back = position;
      visit(id).home = instruction.writes[0].buffer;
      latest.of(visit(id).home, instruction.model) = id;
    } else {
      note_use(instruction, position, latest, visit_of);
    }
    for (const Operand& operand : instruction.writes) {
      const std::int32_t id = nth(visit_of, operand.buffer);
      if (id >= 0 && visit(id).fetch == position) continue;  // what is fetched is what was there
      const BufferId home = id < 0 ? operand.buffer : visit(id).home;
      if (home >= 0) latest_whole.of(home, instruction.model) = -1;
    }
    if (pair_.gathers(instruction) && is_gathered(instruction.writes[0].buffer))
      note_gathering(instruction, position, latest_whole, visit_of);
  }
}

/// Ranks gather alike, so a whole value is worth keeping wherever its shards are not written between.
void Residency::note_gathering(const Instruction& instruction, std::int32_t position, Latest& latest,
                               const std::vector<std::int32_t>& visit_of) {
  const auto visit_number = [&](BufferId buffer) { return nth(visit_of, buffer); };
  const BufferId source = instruction.reads[0].buffer;
  const std::int32_t id = visit_number(instruction.writes[0].buffer);
  Visit& whole = visit(id);
  whole.is_gathered = true;
  whole.fetch = position;
  whole.shard = is_visitor(source) ? visit_number(source) : -1;
  whole.home = whole.shard < 0 ? source : visit(whole.shard).home;
  gatherings_.push_back(id);
  if (whole.home < 0) return;
  std::int32_t& previous = latest.of(whole.home, instruction.model);
  const bool may_lead_here = previous >= 0 && serves(visit(previous).fetch) == serves(position) &&
                             when(visit(previous).fetch) == when(position);
  if (may_lead_here) visit(previous).next = id;
  previous = id;
}

void Residency::list_last_uses() {
  last_uses_.reserve(first_uses_.size());
  std::ranges::copy_if(first_uses_, std::back_inserter(last_uses_),
                       [&](const Event& event) { return !visit(event.second).is_gathered; });
  const auto single = static_cast<std::ptrdiff_t>(last_uses_.size());
  for (const std::int32_t id : gatherings_) last_uses_.emplace_back(visit(id).last_use, id);
  const auto of_gathered = last_uses_.begin() + single;
  std::sort(of_gathered, last_uses_.end());
  std::inplace_merge(last_uses_.begin(), of_gathered, last_uses_.end());
}

/// Whether a value that is kept from `visit` can make a fetch superfluous in all rounds that perform it. What
/// a visit fetches it can fetch in all rounds, but not if that is for the first step alone.
bool Residency::may_lead_to(const Visit& visit, std::int32_t fetch) const {
  if (serves(fetch) == Serves::first_step) return false;
  if (visit.fetch >= 0 && serves(visit.fetch) != Serves::first_step) return true;
  const RoundSet fetched = visit.fetch >= 0 ? rounds_of(Serves::first_step) : 0;
  const RoundSet made = visit.writes ? rounds_of(serves(visit.use)) : 0;
  return is_within(rounds_of(serves(fetch)), fetched | made);
}

void Residency::note_use(const Instruction& instruction, std::int32_t position, Latest& latest,
                         std::vector<std::int32_t>& visit_of) {
  for_each_operand(instruction, [&](const Operand& operand, bool writes) {
    if (plain_.buffer(operand.buffer).tier > pair_.near) {
      std::int32_t& of_home = latest.of(operand.buffer, instruction.model);
      if (of_home < 0) return;
      visit(of_home).home_read_before_next |= !writes;
      if (writes) of_home = -1;  // the home is newer than the near copy
      return;
    }
    if (!is_visitor(operand.buffer) && !is_gathered(operand.buffer)) return;
    const std::int32_t number = visit_for(operand.buffer, visit_of);
    Visit& of_use = visit(number);
    of_use.writes |= writes;
    of_use.last_use = position;
    if (of_use.use >= 0) return;
    of_use.use = position;
    first_uses_.emplace_back(position, number);
  });
}

/// Bytes that a visit's value takes from its last use to the first of the next. If that is its shard's last,
/// too, the shard need not wait for it.
Bytes Residency::bytes_to_hold(const Visit& held) {
  const Bytes bytes = plain_.buffer(held.instance).bytes;
  if (held.shard < 0 || !visit(held.shard).kept) return bytes;
  const Visit& next_of_shard = visit(visit(held.shard).next);
  const bool is_last = next_of_shard.use == visit(held.next).fetch && next_of_shard.next < 0;
  return is_last ? bytes - bytes_of(held.shard) : bytes;
}

/// Bytes that a value and its shard take while it is gathered; none if it has been kept.
Bytes Residency::bytes_to_gather(std::int32_t id) {
  const std::int32_t before = nth(previous_, id);
  if (before >= 0 && visit(before).kept) return 0;
  return bytes_of(id) + (visit(id).shard < 0 ? 0 : bytes_of(visit(id).shard));
}

void Residency::choose(Bytes budget, Bytes with_gathered) {
  // What leaves first: the gathered before others, of either the one whose next use is furthest.
  std::priority_queue<std::tuple<bool, std::int32_t, std::int32_t>>
      leaving;  // (is gathered, next use, visit)
  Bytes kept_bytes = 0;
  for (Visit& v : visits_) v.kept = false;
  auto first = first_uses_.begin(), last = last_uses_.begin();
  auto gathering = gatherings_.begin();  // the next
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    if (pair_.is_transfer(plain_.instructions[i])) continue;
    const auto position = static_cast<std::int32_t>(i);
    for (; first != first_uses_.end() && first->first == position; ++first) {
      const std::int32_t before = nth(previous_, first->second);
      if (before >= 0 && visit(before).kept) kept_bytes -= visit(before).held;
    }
    if (gathering != gatherings_.end() && visit(*gathering).fetch == position) ++gathering;
    const auto limit = [&] {
      if (leaving.empty() || !std::get<bool>(leaving.top())) return budget;
      const Bytes coming = gathering == gatherings_.end() ? 0 : bytes_to_gather(*gathering);
      return std::min(budget, with_gathered) - coming;
    };
    while (near_.staying[i] + near_.visiting[i] + kept_bytes > limit()) {
      if (leaving.empty()) break;  // what is there has to be
      const auto [is_gathered, use, id] = leaving.top();
      leaving.pop();
      if (use <= position) continue;  // already fetched again, or in use right now
      visit(id).kept = false;
      kept_bytes -= visit(id).held;
    }
    for (; last != last_uses_.end() && last->first == position; ++last) {
      Visit& ended = visit(last->second);
      if (ended.next < 0) continue;
      ended.held = bytes_to_hold(ended);
      ended.kept = true;
      kept_bytes += ended.held;
      leaving.emplace(ended.is_gathered, visit(ended.next).use, last->second);
    }
  }
}

/// A write-back is needed if the home is read, or fetched again before the next write; the next step may
/// read one that is persistent.
bool Residency::needs_write_back(const Visit& written) {
  for (const Visit* v = &written;;) {
    if (v->home_read_before_next) return true;
    if (v->next < 0) return plain_.buffer(v->home).persistent || plain_.buffer(v->home).carried;
    if (!v->kept) return true;
    v = &visit(v->next);
    if (v->writes) return serves(v->use) != serves(written.use);
  }
}

/// Lets a fetch run whenever an instruction that it now serves, too, is performed.
void Residency::share_fetch(Changes& changes, std::int32_t fetch, std::int32_t use) const {
  if (when(use) == When::every_step) nth(changes.runs_always, fetch) = true;
  if (serves(fetch) != Serves::first_step) {
    if (serves(use) != nth(changes.serves, fetch)) nth(changes.serves, fetch) = Serves::both;
  } else if (serves(use) == Serves::step) {
    nth(changes.dropped, fetch) = false;
  }
}

Residency::Changes Residency::find_changes() {
  Changes changes{std::vector<bool>(plain_.instructions.size(), false),
                  std::vector<bool>(plain_.instructions.size(), false),
                  std::vector<Serves>(plain_.instructions.size()),
                  std::vector<BufferId>(plain_.buffers.size())};
  std::ranges::transform(plain_.instructions, changes.serves.begin(), &Instruction::serves);
  std::vector<BufferId>& merged = changes.merged;
  std::iota(merged.begin(), merged.end(), 0);
  for (Visit& v : visits_) {
    v.first_fetch = -1;
    v.is_needed = true;
    v.is_led_to = false;
    // A fetch for the first step alone serves those visits of it that the value is kept until.
    if (v.fetch >= 0 && serves(v.fetch) == Serves::first_step)
      nth(changes.dropped, v.fetch) = serves(v.use) == Serves::step_before;
  }
  for (const std::int32_t id : gatherings_) {
    const Visit& whole = visit(id);
    if (whole.kept && visit(whole.next).shard >= 0) visit(visit(whole.next).shard).is_needed = false;
  }
  for (Visit& v : visits_) {  // in order of first touch, so a chain is merged from its first
    if (!v.is_needed) nth(changes.dropped, v.fetch) = true;
    if (v.kept && (v.is_needed || v.is_led_to)) {
      Visit& next = visit(v.next);
      next.is_led_to = true;
      nth(merged, next.instance) = nth(merged, v.instance);
      nth(changes.dropped, next.fetch) = true;
      next.first_fetch = v.first_fetch >= 0 ? v.first_fetch : v.fetch;
      if (next.first_fetch >= 0 && next.is_needed) share_fetch(changes, next.first_fetch, next.use);
    }
    if (v.write_back >= 0 && !needs_write_back(v)) nth(changes.dropped, v.write_back) = true;
  }
  return changes;
}

Program Residency::run(Bytes near_bytes, Bytes with_gathered) {
  choose(near_bytes, with_gathered);
  const Changes changes = find_changes();
  const auto stands_for = [&](BufferId id) { return nth(changes.merged, id); };
  std::vector<bool> touched(plain_.buffers.size(), false);
  std::size_t instructions = 0;
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    if (changes.dropped[i]) continue;
    ++instructions;
    for_each_operand(plain_.instructions[i],
                     [&](const Operand& operand, bool) { nth(touched, stands_for(operand.buffer)) = true; });
  }
  Program result = plain_.outline();
  std::vector<BufferId> renamed(plain_.buffers.size(), -1);
  for (std::size_t b = 0; b < renamed.size(); ++b) {
    if (touched[b] || plain_.buffers[b].persistent) renamed[b] = result.add(plain_.buffers[b]);
  }
  result.instructions.reserve(instructions);
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    if (changes.dropped[i]) continue;
    Instruction& instruction = result.instructions.emplace_back(plain_.instructions[i]);
    if (changes.runs_always[i]) instruction.when = When::every_step;
    instruction.serves = changes.serves[i];
  }
  rename_buffers(result, [&](BufferId id) { return renamed[stands_for(id)]; });
  return result;
}

ResidentBytes Residency::bytes(Bytes near_bytes) {
  choose(near_bytes);
  const Changes changes = find_changes();
  ResidentBytes result{.sent_in_group = std::vector<Bytes>(plain_.groups.size(), 0),
                       .live = live_bytes(changes)};
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    const Instruction& instruction = plain_.instructions[i];
    if (changes.dropped[i] || instruction.serves == Serves::first_step) continue;
    if (instruction.when != When::every_step && !changes.runs_always[i]) continue;
    if (instruction.exchange.group >= 0)
      nth(result.sent_in_group, instruction.exchange.group) += instruction.exchange.sent;
    if (!pair_.is_transfer(instruction)) continue;
    (instruction.operation == pair_.fetch ? result.fetched : result.written_back) +=
        plain_.buffer(instruction.reads[0].buffer).bytes;
  }
  return result;
}

Bytes Residency::live_bytes(const Changes& changes) const {
  const auto count = static_cast<std::int32_t>(plain_.instructions.size());
  LifetimeFinder finder(plain_);
  for (std::int32_t i = 0; i < count; ++i) {
    if (nth(changes.dropped, i)) continue;
    for_each_operand(at(i), [&](const Operand& operand, bool writes) {
      finder.touch(nth(changes.merged, operand.buffer), i, serves(i), writes);
    });
  }
  const std::vector<Lifetime> live = finder.find(count);
  std::vector<Bytes> change(plain_.instructions.size() + 1, 0);
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = plain_.buffers[b];
    if (buffer.tier != pair_.near) continue;
    live[b].for_each_stretch(count, [&](std::int32_t first, std::int32_t last) {
      nth(change, first) += buffer.bytes;
      nth(change, last + 1) -= buffer.bytes;
    });
  }
  Bytes now = 0, most = 0;
  for (const Bytes bytes : change) most = std::max(most, now += bytes);
  return most;
}

NearBytes near_bytes(const Program& program, const TierPair& pair) {
  return Residency(program, pair).needs();
}

Program keep_resident(const Program& plain, const TierPair& pair, Bytes near_bytes, Bytes with_gathered) {
  return Residency(plain, pair).run(near_bytes, with_gathered);
}

Bytes moved_bytes(const Program& program, Operation transfer) {
  Bytes bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == transfer && instruction.is_of_every_step())
      bytes += program.buffer(instruction.reads[0].buffer).bytes;
  }
  return bytes;
}

}  // namespace strata
