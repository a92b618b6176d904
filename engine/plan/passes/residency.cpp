#include "engine/plan/passes/residency.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

#include "engine/plan/program/rounds.h"

namespace strata {
namespace {

/// Per buffer: it is fetched to the near tier or written back from there, for one use. The tier's other
/// buffers stay where they are; what is copied to or from them is copied.
std::vector<bool> find_visitors(const Program& program, const Level& level) {
  std::vector<bool> visits(program.buffers.size(), false);
  std::vector<std::int32_t> uses(program.buffers.size(), 0);
  std::vector<std::int32_t> latest_use(program.buffers.size(), -1);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.operation == level.fetch)
      visits[static_cast<std::size_t>(instruction.writes[0].buffer)] = true;
    if (instruction.operation == level.write_back)
      visits[static_cast<std::size_t>(instruction.reads[0].buffer)] = true;
    if (level.is_transfer(instruction)) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      const auto id = static_cast<std::size_t>(operand.buffer);
      if (std::exchange(latest_use[id], static_cast<std::int32_t>(i)) != static_cast<std::int32_t>(i))
        ++uses[id];
    });
  }
  for (std::size_t b = 0; b < visits.size(); ++b) {
    if (program.buffers[b].persistent || uses[b] > 1) visits[b] = false;
  }
  return visits;
}

/// Per instruction: bytes of visitors that it touches.
std::vector<Bytes> visiting_bytes(const Program& program, const std::vector<bool>& visits) {
  std::vector<Bytes> bytes(program.instructions.size(), 0);
  std::vector<std::size_t> counted_at(program.buffers.size(), program.instructions.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for_each_operand(program.instructions[i], [&](const Operand& operand, bool) {
      const auto id = static_cast<std::size_t>(operand.buffer);
      if (!visits[id] || counted_at[id] == i) return;
      counted_at[id] = i;
      bytes[i] += program.buffers[id].bytes;
    });
  }
  return bytes;
}

/// Per instruction: live bytes of the near tier that are no visitors'.
std::vector<Bytes> staying_bytes(const Program& program, Tier near, const std::vector<bool>& visits) {
  std::vector<Bytes> change(program.instructions.size() + 1, 0);
  const std::vector<Lifetime> live = lifetimes(program);
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.tier != near || visits[b]) continue;
    live[b].for_each_stretch(static_cast<std::int32_t>(program.instructions.size()),
                             [&](std::int32_t first, std::int32_t last) {
                               change[static_cast<std::size_t>(first)] += buffer.bytes;
                               change[static_cast<std::size_t>(last) + 1] -= buffer.bytes;
                             });
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

}  // namespace

Residency::Residency(const Program& plain, const Level& level)
    : plain_(plain),
      level_(level),
      is_visitor_(find_visitors(plain, level)),
      visiting_(visiting_bytes(plain, is_visitor_)),
      staying_(staying_bytes(plain, level.near, is_visitor_)) {
  find_visits();
}

NearBytes Residency::needs() const {
  NearBytes result;
  for (std::size_t i = 0; i < visiting_.size(); ++i) {
    result.smallest = std::max(result.smallest, staying_[i] + visiting_[i]);
    result.largest_visit = std::max(result.largest_visit, visiting_[i]);
  }
  return result;
}

std::int32_t Residency::visit_for(BufferId instance, std::vector<std::int32_t>& visit_of) {
  std::int32_t& id = visit_of[static_cast<std::size_t>(instance)];
  if (id < 0) {
    id = static_cast<std::int32_t>(visits_.size());
    visits_.push_back({.instance = instance});
  }
  return id;
}

/// In the plain program every instance has at most one fetch, exactly one use and at most one write-back, in
/// this order.
void Residency::find_visits() {
  std::vector<std::int32_t> visit_of(plain_.buffers.size(), -1);
  std::vector<std::int32_t> latest(plain_.buffers.size(), -1);  // per home: its latest visit
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    const Instruction& instruction = plain_.instructions[i];
    const auto position = static_cast<std::int32_t>(i);
    if (instruction.operation == level_.fetch && is_visitor(instruction.writes[0].buffer)) {
      const std::int32_t id = visit_for(instruction.writes[0].buffer, visit_of);
      visit(id).fetch = position;
      visit(id).home = instruction.reads[0].buffer;
      std::int32_t& previous = latest[static_cast<std::size_t>(visit(id).home)];
      if (previous >= 0 && may_lead_to(visit(previous), position)) visit(previous).next = id;
      previous = id;
    } else if (instruction.operation == level_.write_back && is_visitor(instruction.reads[0].buffer)) {
      const std::int32_t id = visit_for(instruction.reads[0].buffer, visit_of);
      visit(id).write_back = position;
      visit(id).home = instruction.writes[0].buffer;
      latest[static_cast<std::size_t>(visit(id).home)] = id;
    } else {
      note_use(instruction, position, latest, visit_of);
    }
  }
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

void Residency::note_use(const Instruction& instruction, std::int32_t position,
                         std::vector<std::int32_t>& latest, std::vector<std::int32_t>& visit_of) {
  for_each_operand(instruction, [&](const Operand& operand, bool writes) {
    if (plain_.buffer(operand.buffer).tier > level_.near) {
      std::int32_t& of_home = latest[static_cast<std::size_t>(operand.buffer)];
      if (of_home < 0) return;
      visit(of_home).home_read_before_next |= !writes;
      if (writes) of_home = -1;  // the home is newer than the near copy
      return;
    }
    if (!is_visitor(operand.buffer)) return;
    const std::int32_t id = visit_for(operand.buffer, visit_of);
    visit(id).writes |= writes;
    if (visit(id).use == position) return;
    visit(id).use = position;
    uses_.emplace_back(position, id);
  });
}

void Residency::choose(Bytes budget) {
  std::priority_queue<std::pair<std::int32_t, std::int32_t>> furthest;  // (next use, visit)
  Bytes kept_bytes = 0;
  std::vector<std::int32_t> previous(visits_.size(), -1);
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    visits_[v].kept = false;
    if (visits_[v].next >= 0)
      previous[static_cast<std::size_t>(visits_[v].next)] = static_cast<std::int32_t>(v);
  }
  auto end = uses_.begin();
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    if (level_.is_transfer(plain_.instructions[i])) continue;
    const auto begin = end;
    for (; end != uses_.end() && end->first == static_cast<std::int32_t>(i); ++end) {
      const std::int32_t before = previous[static_cast<std::size_t>(end->second)];
      if (before >= 0 && visit(before).kept) kept_bytes -= bytes_of(before);
    }
    while (staying_[i] + visiting_[i] + kept_bytes > budget) {
      if (furthest.empty())
        throw std::logic_error("keep_resident: the budget is below the smallest possible");
      const auto [use, id] = furthest.top();
      furthest.pop();
      if (use <= static_cast<std::int32_t>(i)) continue;  // already fetched again, or in use right now
      visit(id).kept = false;
      kept_bytes -= bytes_of(id);
    }
    for (auto use = begin; use != end; ++use) {
      const std::int32_t id = use->second;
      if (visit(id).next < 0) continue;
      visit(id).kept = true;
      kept_bytes += bytes_of(id);
      furthest.emplace(visit(visit(id).next).use, id);
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
  const auto index = static_cast<std::size_t>(fetch);
  if (when(use) == When::every_step) changes.runs_always[index] = true;
  if (serves(fetch) != Serves::first_step) {
    if (serves(use) != changes.serves[index]) changes.serves[index] = Serves::both;
  } else if (serves(use) == Serves::step) {
    changes.dropped[index] = false;
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
    // A fetch for the first step alone serves those visits of it that the value is kept until.
    if (v.fetch >= 0 && serves(v.fetch) == Serves::first_step)
      changes.dropped[static_cast<std::size_t>(v.fetch)] = serves(v.use) == Serves::step_before;
  }
  for (Visit& v : visits_) {  // in order of first touch, so a chain is merged from its first
    if (v.kept) {
      Visit& next = visit(v.next);
      merged[static_cast<std::size_t>(next.instance)] = merged[static_cast<std::size_t>(v.instance)];
      changes.dropped[static_cast<std::size_t>(next.fetch)] = true;
      next.first_fetch = v.first_fetch >= 0 ? v.first_fetch : v.fetch;
      if (next.first_fetch >= 0) share_fetch(changes, next.first_fetch, next.use);
    }
    if (v.write_back >= 0 && !needs_write_back(v))
      changes.dropped[static_cast<std::size_t>(v.write_back)] = true;
  }
  return changes;
}

Program Residency::run(Bytes near_bytes) {
  choose(near_bytes);
  const Changes changes = find_changes();
  const auto stands_for = [&](BufferId id) {
    return static_cast<std::size_t>(changes.merged[static_cast<std::size_t>(id)]);
  };
  std::vector<bool> touched(plain_.buffers.size(), false);
  std::size_t instructions = 0;
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    if (changes.dropped[i]) continue;
    ++instructions;
    for_each_operand(plain_.instructions[i],
                     [&](const Operand& operand, bool) { touched[stands_for(operand.buffer)] = true; });
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
  ResidentBytes result{.live = live_bytes(changes)};
  for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
    const Instruction& instruction = plain_.instructions[i];
    if (!level_.is_transfer(instruction) || changes.dropped[i]) continue;
    if (instruction.when != When::every_step && !changes.runs_always[i]) continue;
    if (instruction.serves == Serves::first_step) continue;
    (instruction.operation == level_.fetch ? result.fetched : result.written_back) +=
        plain_.buffer(instruction.reads[0].buffer).bytes;
  }
  return result;
}

Bytes Residency::live_bytes(const Changes& changes) const {
  const auto count = static_cast<std::int32_t>(plain_.instructions.size());
  LifetimeFinder finder(plain_);
  for (std::int32_t i = 0; i < count; ++i) {
    if (changes.dropped[static_cast<std::size_t>(i)]) continue;
    for_each_operand(at(i), [&](const Operand& operand, bool) {
      finder.touch(changes.merged[static_cast<std::size_t>(operand.buffer)], i, serves(i));
    });
  }
  const std::vector<Lifetime> live = finder.find(count);
  std::vector<Bytes> change(plain_.instructions.size() + 1, 0);
  for (std::size_t b = 0; b < live.size(); ++b) {
    const Buffer& buffer = plain_.buffers[b];
    if (buffer.tier != level_.near) continue;
    live[b].for_each_stretch(count, [&](std::int32_t first, std::int32_t last) {
      change[static_cast<std::size_t>(first)] += buffer.bytes;
      change[static_cast<std::size_t>(last) + 1] -= buffer.bytes;
    });
  }
  Bytes now = 0, most = 0;
  for (const Bytes bytes : change) most = std::max(most, now += bytes);
  return most;
}

NearBytes near_bytes(const Program& program, const Level& level) {
  return Residency(program, level).needs();
}

Program keep_resident(const Program& plain, const Level& level, Bytes near_bytes) {
  return Residency(plain, level).run(near_bytes);
}

Bytes moved_bytes(const Program& program, Operation transfer) {
  Bytes bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == transfer && instruction.when == When::every_step &&
        instruction.serves != Serves::first_step)
      bytes += program.buffer(instruction.reads[0].buffer).bytes;
  }
  return bytes;
}

}  // namespace strata
