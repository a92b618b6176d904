#include "engine/plan/residency.h"

#include <algorithm>
#include <queue>
#include <stdexcept>

namespace strata {
namespace {

/// One use of a value on the device, with the copies around it.
struct Visit {
  BufferId instance = -1;
  BufferId home = -1;
  std::int32_t use = -1, fetch = -1, write_back = -1;
  bool writes = false;
  std::int32_t next = -1;  ///< the visit that wants this value again, where keeping it would save a fetch
  bool kept = false;       ///< the value stays on the device until `next`
  bool host_reads_before_next = false;
};

Bytes persistent_bytes(const Program& program) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.tier == Tier::device) bytes += buffer.bytes;
  }
  return bytes;
}

bool is_copy(const Instruction& instruction) {
  return instruction.operation == Operation::copy_to_device || instruction.operation == Operation::copy_to_host;
}

/// Bytes of the transient device buffers that one instruction touches.
Bytes transient_bytes(const Program& program, const Instruction& instruction) {
  Bytes bytes = 0;
  for (const Operand& operand : instruction.writes) {
    const Buffer& buffer = program.buffer(operand.buffer);
    if (buffer.tier == Tier::device && !buffer.persistent) bytes += buffer.bytes;
  }
  for (const Operand& operand : instruction.reads) {
    const Buffer& buffer = program.buffer(operand.buffer);
    const bool counted = std::any_of(instruction.writes.begin(), instruction.writes.end(),
                                     [&](const Operand& written) { return written.buffer == operand.buffer; });
    if (buffer.tier == Tier::device && !buffer.persistent && !counted) bytes += buffer.bytes;
  }
  return bytes;
}

class Residency {
 public:
  explicit Residency(const Program& plain) : plain_(plain), visits_at_(plain.instructions.size()) { find_visits(); }

  Program run(Bytes device_bytes) {
    choose(device_bytes - persistent_bytes(plain_));
    return rewrite();
  }

 private:
  /// In the plain program every instance has at most one fetch, exactly one use and at most one write-back, in this order.
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
      if (instruction.operation == Operation::copy_to_device) {
        Visit& visit = visit_for(instruction.writes[0].buffer);
        visit.fetch = position;
        visit.home = instruction.reads[0].buffer;
        std::int32_t& previous = latest[static_cast<std::size_t>(visit.home)];
        const auto id = visit_of[static_cast<std::size_t>(visit.instance)];
        if (previous >= 0) visits_[static_cast<std::size_t>(previous)].next = id;
        previous = id;
      } else if (instruction.operation == Operation::copy_to_host) {
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
      if (buffer.tier == Tier::host) {
        std::int32_t& visit = latest[static_cast<std::size_t>(operand.buffer)];
        if (visit < 0) return;
        visits_[static_cast<std::size_t>(visit)].host_reads_before_next |= !writes;
        if (writes) visit = -1;  // the host's copy is newer than the device's
        return;
      }
      if (buffer.persistent || buffer.kind == BufferKind::workspace) return;
      Visit& visit = visit_for(operand.buffer);
      visit.writes |= writes;
      if (visit.use == position) return;
      visit.use = position;
      visits_at_[static_cast<std::size_t>(position)].push_back(visit_of[static_cast<std::size_t>(operand.buffer)]);
    });
  }

  Visit& visit(std::int32_t id) { return visits_[static_cast<std::size_t>(id)]; }

  void choose(Bytes budget) {
    std::priority_queue<std::pair<std::int32_t, std::int32_t>> furthest;  // (next use, visit)
    Bytes kept_bytes = 0;
    std::vector<std::int32_t> previous(visits_.size(), -1);
    for (std::size_t v = 0; v < visits_.size(); ++v) {
      if (visits_[v].next >= 0) previous[static_cast<std::size_t>(visits_[v].next)] = static_cast<std::int32_t>(v);
    }
    for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
      const Instruction& instruction = plain_.instructions[i];
      if (is_copy(instruction)) continue;
      for (const std::int32_t id : visits_at_[i]) {
        const std::int32_t before = previous[static_cast<std::size_t>(id)];
        if (before >= 0 && visit(before).kept) kept_bytes -= bytes_of(before);
      }
      const Bytes needed = transient_bytes(plain_, instruction);
      while (needed + kept_bytes > budget) {
        if (furthest.empty()) throw std::logic_error("keep_resident: the budget is below the smallest possible");
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

  Bytes bytes_of(std::int32_t id) { return plain_.buffer(visit(id).instance).bytes; }

  /// A write-back is needed where the host reads the value, or a later fetch does before the next device write.
  bool needs_write_back(const Visit& written) {
    for (const Visit* v = &written;;) {
      if (v->host_reads_before_next) return true;
      if (v->next < 0) return false;
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
      }
      if (v.write_back >= 0 && !needs_write_back(v)) dropped[static_cast<std::size_t>(v.write_back)] = true;
    }
    result.instructions.clear();
    for (std::size_t i = 0; i < plain_.instructions.size(); ++i) {
      if (dropped[i]) continue;
      Instruction instruction = plain_.instructions[i];
      for (std::vector<Operand>* operands : {&instruction.reads, &instruction.writes}) {
        for (Operand& operand : *operands) operand.buffer = merged[static_cast<std::size_t>(operand.buffer)];
      }
      result.instructions.push_back(std::move(instruction));
    }
    return without_unused_buffers(result);
  }

  const Program& plain_;
  std::vector<Visit> visits_;
  std::vector<std::vector<std::int32_t>> visits_at_;
};

}  // namespace

Bytes smallest_device_bytes(const Program& program) {
  Bytes largest = 0;
  for (const Instruction& instruction : program.instructions) {
    largest = std::max(largest, transient_bytes(program, instruction));
  }
  return largest + persistent_bytes(program);
}

Program keep_resident(const Program& plain, Bytes device_bytes) { return Residency(plain).run(device_bytes); }

Program without_unused_buffers(const Program& program) {
  const std::vector<Lifetime> live = lifetimes(program);
  std::vector<BufferId> renamed(program.buffers.size(), -1);
  Program result;
  result.units = program.units;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (live[b].last >= live[b].first) renamed[b] = result.add(program.buffers[b]);
  }
  result.instructions = program.instructions;
  for (Instruction& instruction : result.instructions) {
    for (std::vector<Operand>* operands : {&instruction.reads, &instruction.writes}) {
      for (Operand& operand : *operands) operand.buffer = renamed[static_cast<std::size_t>(operand.buffer)];
    }
  }
  return result;
}

Bytes copied_bytes(const Program& program, Operation copy) {
  Bytes bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == copy) bytes += program.buffer(instruction.reads[0].buffer).bytes;
  }
  return bytes;
}

}  // namespace strata
