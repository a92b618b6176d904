// Merging one word: by looking for the best pair again and again if it is short, else with a heap of pairs.
#include <algorithm>
#include <array>
#include <functional>

#include "engine/input/text/bpe.h"

namespace strata::text {
namespace {

/// Up to here, looking at all pairs is faster than keeping a heap.
constexpr std::size_t kShortWord = 32;

/// `ids` are a short word's; returns how many are left.
std::size_t merge_short(const PairTable& merges, std::int32_t* ids, std::size_t count) {
  std::array<Merge, kShortWord> pairs;  // pairs[i] joins ids[i] and ids[i + 1]
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNone) break;
    ids[best] = pairs[best].id;
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(pairs.data() + best + 1, pairs.data() + count - 1, pairs.data() + best);
    --count;
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = merges.find(ids[best], ids[best + 1]);
  }
  return count;
}

/// A merge that was possible when it was noted; the rank and the place make the order.
struct Candidate {
  std::uint32_t rank, place;
  std::int32_t id;

  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : place > other.place;
  }
};

struct Symbol {
  std::int32_t id;
  std::uint32_t previous, next;  ///< kNowhere at the ends
  bool is_there = true;
};
constexpr std::uint32_t kNowhere = 0xffffffff;

class LongWord {
 public:
  LongWord(const PairTable& merges, const std::int32_t* ids, std::size_t count)
      : merges_(merges), symbols_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto place = static_cast<std::uint32_t>(i);
      symbols_[i] = {ids[i], i == 0 ? kNowhere : place - 1, i + 1 == count ? kNowhere : place + 1};
    }
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const Merge merge = merges.find(ids[i], ids[i + 1]);
      if (merge.rank != Merge::kNone) heap_.push_back({merge.rank, static_cast<std::uint32_t>(i), merge.id});
    }
    std::ranges::make_heap(heap_, std::greater());
  }

  void merge() {
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, std::greater());
      const Candidate best = heap_.back();
      heap_.pop_back();
      join(best);
    }
  }

  std::size_t write(std::int32_t* ids) const {
    std::size_t count = 0;
    for (const Symbol& symbol : symbols_) {
      if (symbol.is_there) ids[count++] = symbol.id;
    }
    return count;
  }

 private:
  void join(const Candidate& best) {
    Symbol& left = symbols_[best.place];
    if (!left.is_there || left.next == kNowhere) return;
    Symbol& right = symbols_[left.next];
    const Merge now = merges_.find(left.id, right.id);
    if (now.rank == Merge::kNone || now.id != best.id) return;  // one of the two has been joined since
    left.id = best.id;
    left.next = right.next;
    right.is_there = false;
    if (left.next != kNowhere) symbols_[left.next].previous = best.place;
    if (left.previous != kNowhere) note(left.previous);
    if (left.next != kNowhere) note(best.place);
  }

  void note(std::uint32_t place) {
    const Symbol& left = symbols_[place];
    const Merge merge = merges_.find(left.id, symbols_[left.next].id);
    if (merge.rank == Merge::kNone) return;
    heap_.push_back({merge.rank, place, merge.id});
    std::ranges::push_heap(heap_, std::greater());
  }

  const PairTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace

void merge_all(const PairTable& merges, std::vector<std::int32_t>& ids, std::size_t begin) {
  const std::size_t count = ids.size() - begin;
  if (count <= kShortWord) {
    ids.resize(begin + merge_short(merges, ids.data() + begin, count));
    return;
  }
  LongWord word(merges, ids.data() + begin, count);
  word.merge();
  ids.resize(begin + word.write(ids.data() + begin));
}

}  // namespace strata::text
