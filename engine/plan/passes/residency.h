// Residency: which values stay on a tier between two uses. Transfers of what stays are removed from the
// program.
#pragma once

#include <utility>
#include <vector>

#include "engine/plan/passes/level.h"

namespace strata {

/// What a plain program needs of a level's near tier.
struct NearBytes {
  Bytes smallest = 0;  ///< of the hungriest single instruction, with all that is alive beside it: no budget
                       ///< below can run it
  Bytes largest_visit = 0;  ///< of values that come and go, in one instruction
};

/// What a step that does not save and is not the first moves over a level, and the near tier's largest sum of
/// live buffers.
struct ResidentBytes {
  Bytes fetched = 0, written_back = 0, live = 0;
};

/// Walks the plain program and keeps each value on the near tier until its next use while a budget allows;
/// when it does not, the value whose next use is furthest away leaves (Belady 1966: optimal for equal sizes,
/// and the accesses are known). Two visits that a kept value connects share one buffer; the fetch between
/// them goes, and the write-back too unless the home is read later. A fetch that then serves several visits
/// runs in every step in which one of them does, and one for the first step alone only if a visit of that
/// step is among them.
///
/// A program is analyzed once and then asked for several budgets. REQUIRES: the program outlives this.
class Residency {
 public:
  Residency(const Program& plain, const Level& level);

  NearBytes needs() const;
  /// The program within a budget. REQUIRES, as bytes() does: near_bytes ≥ the smallest.
  Program run(Bytes near_bytes);
  /// What run() would move and hold, without making the program.
  ResidentBytes bytes(Bytes near_bytes);

 private:
  /// One use of a value on the near tier, with the transfers around it.
  struct Visit {
    BufferId instance = -1;
    BufferId home = -1;
    std::int32_t use = -1, fetch = -1, write_back = -1;
    bool writes = false;
    std::int32_t next = -1;  ///< the visit that wants this value again, if keeping it would save a fetch
    bool kept = false;       ///< the value stays on the near tier until `next`
    bool home_read_before_next = false;
    std::int32_t first_fetch =
        -1;  ///< of a visit that a kept value leads to: the fetch that began it all, if any
  };

  /// What becomes of the plain program.
  struct Changes {
    std::vector<bool> dropped, runs_always;  ///< per instruction
    std::vector<Serves> serves;              ///< likewise
    std::vector<BufferId> merged;            ///< per buffer: the one that stands for it
  };

  void find_visits();
  void note_use(const Instruction& instruction, std::int32_t position, std::vector<std::int32_t>& latest,
                std::vector<std::int32_t>& visit_of);
  std::int32_t visit_for(BufferId instance, std::vector<std::int32_t>& visit_of);
  void choose(Bytes near_bytes);
  bool needs_write_back(const Visit& written);
  Changes find_changes();
  void share_fetch(Changes& changes, std::int32_t fetch, std::int32_t use) const;
  bool may_lead_to(const Visit& visit, std::int32_t fetch) const;
  const Instruction& at(std::int32_t position) const {
    return plain_.instructions[static_cast<std::size_t>(position)];
  }
  Serves serves(std::int32_t position) const { return at(position).serves; }
  When when(std::int32_t position) const { return at(position).when; }
  Bytes live_bytes(const Changes& changes) const;

  bool is_visitor(BufferId id) const { return is_visitor_[static_cast<std::size_t>(id)]; }
  Visit& visit(std::int32_t id) { return visits_[static_cast<std::size_t>(id)]; }
  Bytes bytes_of(std::int32_t id) { return plain_.buffer(visit(id).instance).bytes; }

  const Program& plain_;
  const Level level_;
  std::vector<bool> is_visitor_;
  std::vector<Bytes> visiting_, staying_;  ///< per instruction: bytes of visitors that it touches; of others
  std::vector<Visit> visits_;
  std::vector<std::pair<std::int32_t, std::int32_t>> uses_;  ///< instruction and visit, in program order
};

/// Residency for one budget.
Program keep_resident(const Program& plain, const Level& level, Bytes near_bytes);
NearBytes near_bytes(const Program& program, const Level& level);

/// Bytes that all transfers of one kind move in a step that does not save and is not the first.
Bytes moved_bytes(const Program& program, Operation transfer);

}  // namespace strata
