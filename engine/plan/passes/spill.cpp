#include "engine/plan/passes/spill.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/nth.h"
#include "engine/config/choices.h"

namespace strata {
namespace {

/// In the order in which kinds leave the host.
constexpr std::array kSpillable = {BufferKind::optimizer_state, BufferKind::gradient, BufferKind::activation,
                                   BufferKind::parameter};

/// One instruction and its transfers.
class Staging {
 public:
  Staging(Program& program, const std::vector<bool>& spilled) : program_(program), spilled_(spilled) {}

  void add(Instruction instruction) {
    reads_.clear();
    writes_.clear();
    instances_.clear();
    for (Operand& operand : instruction.reads) {
      if (!spilled(operand.buffer)) continue;
      const Operand home = operand;
      operand.buffer = instance(home.buffer);
      transfer(reads_, Operation::read, Lane::read, instruction, home, operand);
    }
    for (Operand& operand : instruction.writes) {
      if (!spilled(operand.buffer)) continue;
      const Operand home = operand;
      const bool is_made = !has_instance(home.buffer);
      operand.buffer = instance(home.buffer);
      // The first step finds on the nvme tier what is made of state for later ones.
      if (is_made && program_.buffer(home.buffer).persistent && instruction.serves == Serves::step_before)
        transfer(reads_, Operation::read, Lane::read, instruction, home, operand, Serves::first_step);
      transfer(writes_, Operation::write, Lane::write, instruction, operand, home);
    }
    append(reads_);
    program_.instructions.push_back(std::move(instruction));
    append(writes_);
  }

 private:
  bool spilled(BufferId id) const { return nth(spilled_, id); }

  bool has_instance(BufferId home) const {
    return std::ranges::any_of(instances_, [home](const auto& known) { return known.first == home; });
  }

  /// The instruction's own buffer on the host for what is at home on the nvme tier.
  BufferId instance(BufferId home) {
    for (const auto& [known, id] : instances_) {
      if (known == home) return id;
    }
    Buffer buffer = program_.buffer(home);
    buffer.tier = Tier::host;
    buffer.persistent = buffer.carried = buffer.renewed = buffer.apart = false;
    instances_.emplace_back(home, program_.add(std::move(buffer)));
    return instances_.back().second;
  }

  static void transfer(std::vector<Instruction>& list, Operation operation, Lane lane, const Instruction& of,
                       Operand from, Operand to, std::optional<Serves> serves = {}) {
    from.role = Role::source;
    to.role = Role::destination;
    list.push_back({.operation = operation,
                    .lane = lane,
                    .unit = of.unit,
                    .microbatch = of.microbatch,
                    .reads = {from},
                    .writes = {to},
                    .when = of.when,
                    .serves = serves.value_or(of.serves),
                    .model = of.model});
  }

  void append(std::vector<Instruction>& list) {
    std::move(list.begin(), list.end(), std::back_inserter(program_.instructions));
  }

  Program& program_;
  const std::vector<bool>& spilled_;
  std::vector<Instruction> reads_, writes_;
  std::vector<std::pair<BufferId, BufferId>> instances_;  ///< home, instance
};

}  // namespace

SpillOrder find_spill_order(const Program& program, const TierChoices& wanted) {
  SpillOrder order;
  std::vector<BufferId> chosen;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].pin && program.buffers[b].pin->tier == Tier::nvme)
      order.buffers.push_back(static_cast<BufferId>(b));
  }
  for (const BufferKind kind : kSpillable) {
    const TierChoice tier = wanted[kind];
    if (tier == TierChoice::host) continue;
    std::vector<BufferId> buffers;
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      // A parameter that does not live on the host only passes through it.
      const bool passes = kind == BufferKind::parameter && !buffer.persistent && !buffer.carried;
      if (buffer.tier == Tier::host && buffer.kind == kind && !passes && !buffer.pin)
        buffers.push_back(static_cast<BufferId>(b));
    }
    // State is listed from the bottom unit up, what a step makes in the order in which it is made.
    if (kind == BufferKind::optimizer_state || kind == BufferKind::parameter)
      std::reverse(buffers.begin(), buffers.end());
    const bool forced = tier == TierChoice::nvme;
    std::vector<BufferId>& list = forced ? order.buffers : chosen;
    list.insert(list.end(), buffers.begin(), buffers.end());
  }
  order.forced = order.buffers.size();
  order.buffers.insert(order.buffers.end(), chosen.begin(), chosen.end());
  return order;
}

Program spill(const Program& program, const std::vector<BufferId>& buffers) {
  Program result = program.outline();
  result.buffers = program.buffers;
  std::vector<bool> spilled(program.buffers.size(), false);
  for (const BufferId id : buffers) {
    nth(spilled, id) = true;
    result.buffer(id).tier = Tier::nvme;
  }
  Staging staging(result, spilled);
  for (const Instruction& instruction : program.instructions) staging.add(instruction);
  return result;
}

HostNeeds::HostNeeds(const Program& program, const std::vector<BufferId>& buffers)
    : program_(program),
      live_(lifetimes(program)),
      number_(program.buffers.size(), std::numeric_limits<std::size_t>::max()) {
  for (std::size_t n = 0; n < buffers.size(); ++n) nth(number_, buffers[n]) = n;
}

/// The instructions themselves are the hungriest: while one of their reads or writes runs, no more is alive
/// beside it, and it has one buffer.
NearBytes HostNeeds::with_spilled(std::size_t count) const {
  const auto is_spilled = [&](std::size_t buffer) { return number_[buffer] < count; };
  std::vector<Bytes> change(program_.instructions.size() + 1, 0);
  for (std::size_t b = 0; b < live_.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    if (buffer.tier != Tier::host || is_spilled(b)) continue;
    live_[b].for_each_stretch(static_cast<std::int32_t>(program_.instructions.size()),
                              [&](std::int32_t first, std::int32_t last) {
                                nth(change, first) += buffer.bytes;
                                nth(change, last + 1) -= buffer.bytes;
                              });
  }
  NearBytes result;
  Bytes staying = 0;
  std::vector<std::size_t> counted_at(program_.buffers.size(), program_.instructions.size());
  for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
    staying += change[i];
    Bytes visiting = 0;
    for_each_operand(program_.instructions[i], [&](const Operand& operand, bool) {
      const auto id = static_cast<std::size_t>(operand.buffer);
      if (!is_spilled(id) || std::exchange(counted_at[id], i) == i) return;
      visiting += program_.buffers[id].bytes;
    });
    result.smallest = std::max(result.smallest, staying + visiting);
    result.largest_visit = std::max(result.largest_visit, visiting);
  }
  return result;
}

}  // namespace strata
