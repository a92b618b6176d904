#include "engine/plan/passes/prefetch.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/nth.h"
#include "engine/plan/passes/live_bytes.h"

namespace strata {
namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

/// A transfer and the slot it stands in: slot s is right before anchor s (anchors are the instructions that
/// are not the pair's transfers). A fetch of a shard and the gathering that it is made for are one, and so
/// are a write-back and what the host does with that alone, such as the norm of a gradient.
struct Transfer {
  std::size_t first, last;  ///< instructions, one after the other
  std::int32_t slot;
  BufferId near, home;
  Bytes bytes;
  BufferId gathered = -1;
};

class Prefetch {
 public:
  Prefetch(const Program& program, const TierPair& pair, Bytes budget)
      : program_(program), pair_(pair), budget_(budget) {
    split();
  }

  Program run() {
    sink_write_backs();
    raise_fetches();
    return merge();
  }

 private:
  void split() {
    find_stages();
    const std::vector<bool> written_back = find_written_back();
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const auto slot = static_cast<std::int32_t>(anchors_.size());
      if (instruction.operation == pair_.fetch || is_gathering(instruction, written_back)) {
        const BufferId near = instruction.writes[0].buffer, home = instruction.reads[0].buffer;
        Transfer* latest = fetches_.empty() ? nullptr : &fetches_.back();
        if (latest != nullptr && latest->last + 1 == i && latest->near == home) {
          latest->last = i;
          latest->gathered = near;
          latest->bytes += program_.buffer(near).bytes;
        } else {
          fetches_.push_back({i, i, slot, near, home, program_.buffer(near).bytes});
        }
      } else if (instruction.operation == pair_.write_back) {
        const BufferId near = instruction.reads[0].buffer;
        write_backs_.push_back({i, i, slot, near, instruction.writes[0].buffer, program_.buffer(near).bytes});
      } else if (!write_backs_.empty() && follows(write_backs_.back(), i)) {
        write_backs_.back().last = i;
      } else {
        anchors_.push_back(i);
      }
    }
    measure_live_bytes();
  }

  std::vector<bool> find_written_back() const {
    std::vector<bool> written_back(program_.buffers.size(), false);
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.operation == pair_.write_back) nth(written_back, instruction.reads[0].buffer) = true;
    }
    return written_back;
  }

  /// Whether it gathers a parameter for passes, after which the whole parameter is gone.
  bool is_gathering(const Instruction& instruction, const std::vector<bool>& written_back) const {
    if (!pair_.gathers(instruction)) return false;
    const BufferId whole = instruction.writes[0].buffer;
    return program_.buffer(whole).kind == BufferKind::parameter && !program_.buffer(whole).persistent &&
           !nth(written_back, whole);
  }

  /// Groups along which ranks have other programs: those that send each other messages.
  void find_stages() {
    for (const Instruction& instruction : program_.instructions) {
      const std::int32_t group = instruction.exchange.group;
      if (is_message(instruction.operation) && std::ranges::find(stages_, group) == stages_.end())
        stages_.push_back(group);
    }
  }

  const RankGroup& group(std::int32_t number) const { return nth(program_.groups, number); }

  /// Whether ranks with other programs have a part in it. These move their own part of it by other rules, and
  /// if one stood behind a message of another model and one before it, ranks would wait for each other.
  bool meets_other_stages(const Instruction& instruction) const {
    if (!instruction.meets_ranks()) return false;
    const RankGroup& all = group(instruction.exchange.group);
    return std::ranges::any_of(stages_, [&](std::int32_t number) {
      const RankGroup& stages = group(number);
      for (std::int64_t part = 1; part < all.ranks; ++part)
        if (stages.part_of(part * all.stride) != stages.part_of(0)) return true;
      return false;
    });
  }

  /// Whether an instruction stands behind a write-back, works on what that has brought, and on nothing near.
  /// What reports a step stands behind all that it tells of.
  bool follows(const Transfer& write_back, std::size_t i) const {
    const Instruction& instruction = program_.instructions[i];
    bool is_near = false;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      is_near |= program_.buffer(operand.buffer).tier == pair_.near;
    });
    const bool is_of_host = instruction.lane == Lane::cpu || instruction.lane == Lane::save;
    return i == write_back.last + 1 && is_of_host && instruction.effect != Effect::reports && !is_near &&
           !meets_other_stages(instruction) && conflicts(instruction, write_back);
  }

  /// Whether an instruction must stay on its side of a write-back with all that belongs to it.
  bool conflicts(const Instruction& instruction, const Transfer& write_back) const {
    for (std::size_t i = write_back.first; i <= write_back.last; ++i) {
      const Instruction& moved = program_.instructions[i];
      if (instruction.operation == Operation::finish_checkpoint && moved.operation == Operation::save)
        return true;
      for (const Operand& written : moved.writes)
        if (touches(instruction, written.buffer, false)) return true;
      for (const Operand& read : moved.reads)
        if (touches(instruction, read.buffer, true)) return true;
    }
    return false;
  }

  /// What it writes with all that belongs to it.
  template <typename Visit>
  void for_each_written(const Transfer& transfer, const Visit& visit) const {
    for (std::size_t i = transfer.first; i <= transfer.last; ++i) {
      for (const Operand& written : program_.instructions[i].writes) visit(written.buffer);
    }
  }

  /// A fetch in slot s makes its buffer live from anchor s; a write-back in slot s keeps it live through
  /// anchor s - 1.
  void measure_live_bytes() {
    const auto count = static_cast<std::int32_t>(anchors_.size());
    LifetimeFinder finder(program_);
    for (std::int32_t a = 0; a < count; ++a) {
      for_each_operand(anchor(a), [&](const Operand& operand, bool writes) {
        finder.touch(operand.buffer, a, anchor(a).serves, writes);
      });
    }
    for (const Transfer& fetch : fetches_) {
      const auto touch = [&](BufferId id) { finder.touch(id, fetch.slot, serves(fetch), id != fetch.home); };
      touch(fetch.near);
      touch(fetch.home);  // on the near tier, too, if it is a shard that stays
      if (fetch.gathered >= 0) touch(fetch.gathered);
    }
    for (const Transfer& write_back : write_backs_)
      finder.touch(write_back.near, write_back.slot - 1, serves(write_back), false);
    const std::vector<Lifetime> live = finder.find(count);
    live_.assign(anchors_.size() + 2, 0);
    for (std::size_t b = 0; b < live.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.tier != pair_.near) continue;
      live[b].for_each_stretch(count, [&](std::int32_t first, std::int32_t last) {
        nth(live_, first) += buffer.bytes;
        nth(live_, last + 1) -= buffer.bytes;
      });
    }
    std::partial_sum(live_.begin(), live_.end(), live_.begin());
    last_use_.resize(live.size());
    for (std::size_t b = 0; b < live.size(); ++b) last_use_[b] = live[b].last;
  }

  const Instruction& anchor(std::int32_t a) const { return program_.instructions[nth(anchors_, a)]; }
  Serves serves(const Transfer& transfer) const { return program_.instructions[transfer.first].serves; }

  bool touches(const Instruction& instruction, BufferId id, bool only_writes) const {
    const auto is = [&](const Operand& operand) { return operand.buffer == id; };
    return std::any_of(instruction.writes.begin(), instruction.writes.end(), is) ||
           (!only_writes && std::any_of(instruction.reads.begin(), instruction.reads.end(), is));
  }

  /// Latest slots first, so that a write-back never passes the one after it.
  void sink_write_backs() {
    std::vector<std::int32_t> next_fetch_slot(program_.buffers.size(),
                                              kNever);  // per home, of the fetch that follows
    auto fetch = fetches_.rbegin();
    std::int32_t ceiling = static_cast<std::int32_t>(anchors_.size());
    for (auto transfer = write_backs_.rbegin(); transfer != write_backs_.rend(); ++transfer) {
      for (; fetch != fetches_.rend() && fetch->first > transfer->first; ++fetch) {
        nth(next_fetch_slot, fetch->home) = fetch->slot;
      }
      std::int32_t next_fetch = kNever;
      for_each_written(*transfer,
                       [&](BufferId id) { next_fetch = std::min(next_fetch, nth(next_fetch_slot, id)); });
      const std::int32_t limit =
          std::min({ceiling, slot_after(transfer->slot, pair_.write_back_slack), next_fetch});
      while (transfer->slot < limit && !conflicts(anchor(transfer->slot), *transfer) && lengthen(*transfer)) {
      }
      ceiling = transfer->slot;
    }
  }

  /// The slot behind `count` more instructions of every step: those that rarely run are no work to run under.
  std::int32_t slot_after(std::int32_t slot, std::int32_t count) const {
    while (count > 0 && slot < static_cast<std::int32_t>(anchors_.size())) {
      if (anchor(slot++).when == When::every_step) --count;
    }
    return slot;
  }

  /// Keeps the write-back's buffer through one more anchor, if it fits (or is live there anyway).
  bool lengthen(Transfer& transfer) {
    if (transfer.slot > nth(last_use_, transfer.near)) {
      Bytes& live = nth(live_, transfer.slot);
      if (live + transfer.bytes > budget_) return false;
      live += transfer.bytes;
      nth(last_use_, transfer.near) = transfer.slot;
    }
    ++transfer.slot;
    return true;
  }

  /// Each up to the latest anchor that it may not pass or that has no room for it.
  void raise_fetches() {
    LiveBytes live(live_);
    // Per buffer: the slot behind the latest anchor so far that touches it, and that writes it; per home also
    // the slot of its latest write-back.
    std::vector<std::int32_t> touched(program_.buffers.size(), 0), written(program_.buffers.size(), 0);
    std::int32_t passed = 0, floor = 0;
    auto write_back = write_backs_.begin();
    for (Transfer& fetch : fetches_) {
      for (; write_back != write_backs_.end() && write_back->first < fetch.first; ++write_back)
        for_each_written(*write_back, [&](BufferId id) { raise(nth(written, id), write_back->slot); });
      while (passed < fetch.slot) {
        const Instruction& instruction = anchor(passed++);
        for_each_operand(instruction, [&](const Operand& operand, bool writes) {
          nth(touched, operand.buffer) = passed;
          if (writes) raise(nth(written, operand.buffer), passed);
        });
      }
      // Others may use what is in the near buffer before, if that is not made for this fetch alone.
      floor = std::max({floor, nth(written, fetch.home), nth(touched, fetch.near),
                        fetch.gathered < 0 ? 0 : nth(touched, fetch.gathered)});
      const auto slot = static_cast<std::size_t>(fetch.slot);
      const auto lowest = static_cast<std::int32_t>(live.behind_latest_above(slot, budget_ - fetch.bytes));
      floor = std::min(fetch.slot, std::max(floor, lowest));
      live.add(static_cast<std::size_t>(floor), slot, fetch.bytes);
      fetch.slot = floor;
    }
  }

  static void raise(std::int32_t& slot, std::int32_t to) { slot = std::max(slot, to); }

  Program merge() const {
    Program result = program_.outline();
    result.buffers = program_.buffers;
    result.instructions.reserve(program_.instructions.size());
    auto fetch = fetches_.begin();
    auto write_back = write_backs_.begin();
    for (std::int32_t slot = 0; slot <= static_cast<std::int32_t>(anchors_.size()); ++slot) {
      for (; write_back != write_backs_.end() && write_back->slot == slot; ++write_back) {
        append(result, *write_back);
      }
      for (; fetch != fetches_.end() && fetch->slot == slot; ++fetch) {
        append(result, *fetch);
      }
      if (slot < static_cast<std::int32_t>(anchors_.size())) result.instructions.push_back(anchor(slot));
    }
    return result;
  }

  void append(Program& result, const Transfer& transfer) const {
    for (std::size_t i = transfer.first; i <= transfer.last; ++i)
      result.instructions.push_back(program_.instructions[i]);
  }

  const Program& program_;
  const TierPair pair_;
  Bytes budget_;
  std::vector<std::int32_t> stages_;  ///< groups
  std::vector<std::size_t> anchors_;
  std::vector<Transfer> fetches_, write_backs_;
  std::vector<Bytes> live_;             ///< bytes of the near tier per anchor
  std::vector<std::int32_t> last_use_;  ///< per buffer: last anchor it is live at
};

}  // namespace

Program prefetch(const Program& program, const TierPair& pair, Bytes near_bytes) {
  return Prefetch(program, pair, near_bytes).run();
}

}  // namespace strata
