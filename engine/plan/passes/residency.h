// Residency: which values stay on a tier between two uses. Transfers of what stays are removed from the
// program, and so are exchanges that would gather it again.
#pragma once

#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/nth.h"
#include "engine/plan/passes/near_use.h"
#include "engine/plan/passes/tier_pair.h"

namespace strata {

/// What a plain program needs of a pair's near tier.
struct NearBytes {
  Bytes smallest = 0;  ///< of the hungriest single instruction, with all that is alive beside it: no budget
                       ///< below can run it
  Bytes largest_visit = 0;  ///< of values that come and go, in one instruction
};

/// The bytes that a step moves over a pair and sends to other ranks, and the near tier's largest sum of live
/// buffers. The step does not save and is not the first.
struct ResidentBytes {
  Bytes fetched = 0, written_back = 0;
  std::vector<Bytes> sent_in_group = {};  ///< by number of Program::groups
  Bytes live = 0;

  Bytes sent() const { return std::accumulate(sent_in_group.begin(), sent_in_group.end(), Bytes{0}); }
};

/// Walks the plain program and keeps each value on the near tier until its next use while a budget allows. If
/// the budget does not, the value whose next use is furthest away leaves (Belady 1966: optimal for equal
/// sizes, and the accesses are known). Two visits that a kept value connects share one buffer. The fetch
/// between them goes, and the write-back too unless the home is read later. A fetch that serves several
/// visits runs in every step in which one of them does. A fetch for the first step alone runs only if a visit
/// of that step is among them.
///
/// A gathered value is a visit, too, from its all-gather to the last of its uses in a row. It leaves before
/// all else does, and never takes the room in which the next all-gather can run beside computing. So no value
/// is copied that would not be copied if all were gathered again, and a byte that stays saves about a byte
/// over the links.
///
/// A program is analyzed once and then asked for several budgets. REQUIRES: the program outlives this.
class Residency {
 public:
  Residency(const Program& plain, const TierPair& pair);

  NearBytes needs() const;
  /// The program within a budget, in which gathered values stay only while no more than `with_gathered` bytes
  /// are live. Below the smallest budget that there is it keeps what it can beside what has to be there.
  Program run(Bytes near_bytes, Bytes with_gathered = kUnlimited);
  /// What run() would move and hold, without making the program. REQUIRES: near_bytes ≥ the smallest.
  ResidentBytes bytes(Bytes near_bytes);

 private:
  /// A value's use on the near tier, with the transfers around it. If it is gathered, that is its fetch and
  /// the first of its uses.
  struct Visit {
    BufferId instance = -1;
    BufferId home = -1;  ///< of a gathered value: the shard's
    std::int32_t use = -1, last_use = -1, fetch = -1, write_back = -1;
    bool writes = false;
    bool is_gathered = false;
    std::int32_t shard = -1;  ///< the visit of the shard that is gathered, if that comes and goes
    std::int32_t next = -1;   ///< the visit that wants this value again, if keeping it would save a fetch
    bool kept = false;        ///< the value stays on the near tier until `next`
    Bytes held = 0;           ///< what that takes
    bool home_read_before_next = false;
    std::int32_t first_fetch =
        -1;                  ///< of a visit that a kept value leads to: the fetch that began it all, if any
    bool is_needed = true;   ///< false: a shard that need not be gathered
    bool is_led_to = false;  ///< by a kept value
  };
  /// A position in the program, and the visit that begins or ends there.
  using Event = std::pair<std::int32_t, std::int32_t>;

  /// What becomes of the plain program.
  struct Changes {
    std::vector<bool> dropped, runs_always;  ///< per instruction
    std::vector<Serves> serves;              ///< per instruction
    std::vector<BufferId> merged;            ///< per buffer: the one that stands for it
  };

  /// The latest visit of each home, or -1. Models that share a home have one each: a model may end, or wait,
  /// so none uses what another has fetched.
  class Latest {
   public:
    explicit Latest(std::size_t buffers) : first_(buffers) {}
    std::int32_t& of(BufferId home, std::int32_t model);

   private:
    struct First {
      std::int32_t model = -1, visit = -1;
    };
    std::vector<First> first_;  ///< by home: of the model that visits it first
    std::map<std::pair<BufferId, std::int32_t>, std::int32_t> others_;
  };

  void find_visits();
  void note_gathering(const Instruction& instruction, std::int32_t position, Latest& latest,
                      const std::vector<std::int32_t>& visit_of);
  void note_use(const Instruction& instruction, std::int32_t position, Latest& latest,
                std::vector<std::int32_t>& visit_of);
  std::int32_t visit_for(BufferId instance, std::vector<std::int32_t>& visit_of);
  void list_last_uses();
  void choose(Bytes near_bytes, Bytes with_gathered = kUnlimited);
  Bytes bytes_to_hold(const Visit& visit);
  Bytes bytes_to_gather(std::int32_t id);
  bool needs_write_back(const Visit& written);
  Changes find_changes();
  void share_fetch(Changes& changes, std::int32_t fetch, std::int32_t use) const;
  bool may_lead_to(const Visit& visit, std::int32_t fetch) const;
  const Instruction& at(std::int32_t position) const { return nth(plain_.instructions, position); }
  Serves serves(std::int32_t position) const { return at(position).serves; }
  When when(std::int32_t position) const { return at(position).when; }
  Bytes live_bytes(const Changes& changes) const;

  bool is_visitor(BufferId id) const { return nth(near_.is_visitor, id); }
  bool is_gathered(BufferId id) const { return nth(near_.is_gathered, id); }
  Visit& visit(std::int32_t id) { return nth(visits_, id); }
  Bytes bytes_of(std::int32_t id) { return plain_.buffer(visit(id).instance).bytes; }

  const Program& plain_;
  const TierPair pair_;
  NearUse near_;
  std::vector<Visit> visits_;
  std::vector<Event> first_uses_, last_uses_;  ///< in program order
  std::vector<std::int32_t> previous_;         ///< per visit: the one that it is the next of, or -1
  std::vector<std::int32_t> gatherings_;       ///< visits, in program order
};

/// Residency for one budget.
Program keep_resident(const Program& plain, const TierPair& pair, Bytes near_bytes,
                      Bytes with_gathered = kUnlimited);
NearBytes near_bytes(const Program& program, const TierPair& pair);

/// Bytes that all transfers of one kind move in a step that does not save and is not the first.
Bytes moved_bytes(const Program& program, Operation transfer);

}  // namespace strata
