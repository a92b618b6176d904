#include "engine/plan/residency.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

namespace strata {
namespace {

/// One use of a value on the near tier, with the transfers around it.
struct Visit {
  BufferId instance = -1;
  BufferId home = -1;
  std::int32_t use = -1, fetch = -1, write_back = -1;
  bool writes = false;
  std::int32_t next = -1;  ///< the visit that wants this value again, where keeping it would save a fetch
  bool kept = false;       ///< the value stays on the near tier until `next`
  bool home_read_before_next = false;
  std::int32_t first_fetch =
      -1;  ///< of a visit that a kept value leads to: the fetch that began it all, if any
};

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
    if (buffer.tier != near || visits[b] || live[b].last < live[b].first) continue;
    change[static_cast<std::size_t>(live[b].first)] += buffer.bytes;
    change[static_cast<std::size_t>(live[b].last) + 1] -= buffer.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

class Residency {
 public:
  Residency(const Program& plain, const Level& level)
      : plain_(plain),
        level_(level),
        is_visitor_(find_visitors(plain, level)),
        visits_at_(plain.instructions.size()) {
    find_visits();
  }

  Program run(Bytes near_bytes) {
    choose(near_bytes);
    return rewrite();
  }

 private:
  /// In the plain program every instance has at most one fetch, exactly one use and at most one write-back,
  /// in this order.
  void find_visits() {
    std::vector<std::int32_t> visit_of(plain_.buffers.size(), -1);
    std::vector<std::int32_t> latest(plain_.buffers.size(), -1);  // per home: its latest visit
    const auto visit_for = [&](BufferId instance) -> Visit& {
      std::int32_t& id = visit_of[static_cast<std::size_t>(instance)];
      if (id < 0) {
        id = static_cast<std::int32_t>(visits_.size());
        visits_.push_back({});
        visits_.back().instance = instance;
      }
      return visits_[static_cast<std::size_t>(id)];
    };
    for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
      const Instruction& instruction = plain_.instructions[i];
      const auto position = static_cast<std::int32_t>(i);
      if (instruction.operation == level_.fetch && is_visitor(instruction.writes[0].buffer)) {
        Visit& visit = visit_for(instruction.writes[0].buffer);
        visit.fetch = position;
        visit.home = instruction.reads[0].buffer;
        std::int32_t& previous = latest[static_cast<std::size_t>(visit.home)];
        const auto id = visit_of[static_cast<std::size_t>(visit.instance)];
        if (previous >= 0) visits_[static_cast<std::size_t>(previous)].next = id;
        previous = id;
      } else if (instruction.operation == level_.write_back && is_visitor(instruction.reads[0].buffer)) {
        Visit& visit = visit_for(instruction.reads[0].buffer);
        visit.write_back = position;
        visit.home = instruction.writes[0].buffer;
        latest[static_cast<std::size_t>(visit.home)] = visit_of[static_cast<std::size_t>(visit.instance)];
      } else {
        note_use(instruction, position, latest, visit_for, visit_of);
      }
    }
  }

  template <typename VisitFor>
  void note_use(const Instruction& instruction, std::int32_t position, std::vector<std::int32_t>& latest,
                VisitFor&& visit_for, const std::vector<std::int32_t>& visit_of) {
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      const Buffer& buffer = plain_.buffer(operand.buffer);
      if (buffer.tier > level_.near) {
        std::int32_t& visit = latest[static_cast<std::size_t>(operand.buffer)];
        if (visit < 0) return;
        visits_[static_cast<std::size_t>(visit)].home_read_before_next |= !writes;
        if (writes) visit = -1;  // the home is newer than the near copy
        return;
      }
      if (!is_visitor(operand.buffer)) return;
      Visit& visit = visit_for(operand.buffer);
      visit.writes |= writes;
      if (visit.use == position) return;
      visit.use = position;
      visits_at_[static_cast<std::size_t>(position)].push_back(
          visit_of[static_cast<std::size_t>(operand.buffer)]);
    });
  }

  bool is_visitor(BufferId id) const { return is_visitor_[static_cast<std::size_t>(id)]; }
  Visit& visit(std::int32_t id) { return visits_[static_cast<std::size_t>(id)]; }

  void choose(Bytes budget) {
    std::priority_queue<std::pair<std::int32_t, std::int32_t>> furthest;  // (next use, visit)
    const std::vector<Bytes> visiting = visiting_bytes(plain_, is_visitor_);
    const std::vector<Bytes> staying = staying_bytes(plain_, level_.near, is_visitor_);
    Bytes kept_bytes = 0;
    std::vector<std::int32_t> previous(visits_.size(), -1);
    for (std::size_t v = 0; v < visits_.size(); ++v) {
      if (visits_[v].next >= 0)
        previous[static_cast<std::size_t>(visits_[v].next)] = static_cast<std::int32_t>(v);
    }
    for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
      if (level_.is_transfer(plain_.instructions[i])) continue;
      for (const std::int32_t id : visits_at_[i]) {
        const std::int32_t before = previous[static_cast<std::size_t>(id)];
        if (before >= 0 && visit(before).kept) kept_bytes -= bytes_of(before);
      }
      while (staying[i] + visiting[i] + kept_bytes > budget) {
        if (furthest.empty())
          throw std::logic_error("keep_resident: the budget is below the smallest possible");
        const auto [use, id] = furthest.top();
        furthest.pop();
        if (use <= static_cast<std::int32_t>(i)) continue;  // already fetched again, or in use right now
        visit(id).kept = false;
        kept_bytes -= bytes_of(id);
      }
      for (const std::int32_t id : visits_at_[i]) {
        if (visit(id).next < 0) continue;
        visit(id).kept = true;
        kept_bytes += bytes_of(id);
        furthest.emplace(visit(visit(id).next).use, id);
      }
    }
  }

  When when(std::int32_t position) const {
    return plain_.instructions[static_cast<std::size_t>(position)].when;
  }

  Bytes bytes_of(std::int32_t id) { return plain_.buffer(visit(id).instance).bytes; }

  /// A write-back is needed where the home is read, or fetched again before the next write; the next step may
  /// read one that is persistent.
  bool needs_write_back(const Visit& written) {
    for (const Visit* v = &written;;) {
      if (v->home_read_before_next) return true;
      if (v->next < 0) return plain_.buffer(v->home).persistent;
      if (!v->kept) return true;
      v = &visit(v->next);
      if (v->writes) return false;
    }
  }

  Program rewrite() {
    Program result = plain_;
    std::vector<bool> dropped(plain_.instructions.size(), false);
    std::vector<BufferId> merged(plain_.buffers.size());
    for (std::size_t b = 0; b < merged.size(); ++b) merged[b] = static_cast<BufferId>(b);
    for (Visit& v : visits_) {  // in order of first touch, so a chain is merged from its head
      if (v.kept) {
        Visit& next = visit(v.next);
        merged[static_cast<std::size_t>(next.instance)] = merged[static_cast<std::size_t>(v.instance)];
        dropped[static_cast<std::size_t>(next.fetch)] = true;
        next.first_fetch = v.first_fetch >= 0 ? v.first_fetch : v.fetch;
        if (next.first_fetch >= 0 && when(next.use) == When::every_step)
          result.instructions[static_cast<std::size_t>(next.first_fetch)].when = When::every_step;
      }
      if (v.write_back >= 0 && !needs_write_back(v)) dropped[static_cast<std::size_t>(v.write_back)] = true;
    }
    std::vector<Instruction> all;
    std::swap(all, result.instructions);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!dropped[i]) result.instructions.push_back(std::move(all[i]));
    }
    rename_buffers(result, [&](BufferId id) { return merged[static_cast<std::size_t>(id)]; });
    return without_unused_buffers(result);
  }

  const Program& plain_;
  const Level level_;
  std::vector<bool> is_visitor_;
  std::vector<Visit> visits_;
  std::vector<std::vector<std::int32_t>> visits_at_;
};

}  // namespace

NearBytes near_bytes(const Program& program, const Level& level) {
  const std::vector<bool> visits = find_visitors(program, level);
  const std::vector<Bytes> visiting = visiting_bytes(program, visits);
  const std::vector<Bytes> staying = staying_bytes(program, level.near, visits);
  NearBytes result;
  for (std::size_t i = 0; i < visiting.size(); ++i) {
    result.smallest = std::max(result.smallest, staying[i] + visiting[i]);
    result.largest_visit = std::max(result.largest_visit, visiting[i]);
  }
  return result;
}

Program keep_resident(const Program& plain, const Level& level, Bytes near_bytes) {
  return Residency(plain, level).run(near_bytes);
}

Program without_unused_buffers(const Program& program) {
  const std::vector<Lifetime> live = lifetimes(program);
  std::vector<BufferId> renamed(program.buffers.size(), -1);
  Program result = program;
  result.buffers.clear();
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (live[b].last >= live[b].first) renamed[b] = result.add(program.buffers[b]);
  }
  rename_buffers(result, [&](BufferId id) { return renamed[static_cast<std::size_t>(id)]; });
  return result;
}

Bytes moved_bytes(const Program& program, Operation transfer) {
  Bytes bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == transfer && instruction.when == When::every_step)
      bytes += program.buffer(instruction.reads[0].buffer).bytes;
  }
  return bytes;
}

}  // namespace strata
