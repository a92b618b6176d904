// Working memory of one Kernels object: one shared area and one area per compute thread. Areas only grow, and
// are sized by the calling thread before work is split, so a shape that was seen once never allocates again,
// whichever threads run it.
#pragma once

#include <vector>

#include "base/arena.h"
#include "base/bytes.h"

namespace strata {

class KernelScratch {
 public:
  explicit KernelScratch(int slots) : slots_(static_cast<std::size_t>(slots)) {}

  /// At least `bytes`, aligned to a page; contents are unspecified and valid until the next kernel.
  std::byte* shared(Bytes bytes) { return grown(shared_, bytes); }
  /// Makes every slot's area at least `bytes`. REQUIRES: called before the work is split.
  void reserve_slots(Bytes bytes) {
    for (Arena& slot : slots_) grown(slot, bytes);
  }
  std::byte* slot(int index) { return slots_[static_cast<std::size_t>(index)].data(); }

 private:
  static std::byte* grown(Arena& arena, Bytes bytes) {
    if (arena.size() < bytes) arena = Arena(bytes);
    return arena.data();
  }

  Arena shared_;
  std::vector<Arena> slots_;
};

/// Hands out aligned pieces of an area one after another; with a null area it only adds up how much is
/// needed.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(std::int64_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += align_up(count * static_cast<Bytes>(sizeof(T)));
    return piece;
  }
  Bytes used() const { return used_; }

 private:
  std::byte* base_;
  Bytes used_ = 0;
};

}  // namespace strata
