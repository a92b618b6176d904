// Working memory of one Kernels object: one shared area and one area per compute thread. A run reserves the
// memory of its calls before it begins. Each kernel reserves its own call's memory again, on the calling
// thread, before work is split. So calls find their memory also if the run reserved nothing. Areas only grow.
#pragma once

#include <vector>

#include "base/arena.h"
#include "base/nth.h"
#include "engine/device/scratch.h"

namespace strata {

class CpuScratch {
 public:
  explicit CpuScratch(int slots) : slots_(static_cast<std::size_t>(slots)) {}

  /// Makes the areas at least as large. REQUIRES: called before the work is split.
  void reserve(const ScratchBytes& bytes) {
    grow(shared_, bytes.shared);
    for (Arena& slot : slots_) grow(slot, bytes.per_thread);
  }
  /// Aligned to a page; contents are unspecified and valid until the next kernel.
  std::byte* shared() { return shared_.data(); }
  std::byte* slot(int index) { return nth(slots_, index).data(); }

  Bytes bytes() const {
    Bytes sum = shared_.size();
    for (const Arena& slot : slots_) sum += slot.size();
    return sum;
  }

 private:
  static void grow(Arena& arena, Bytes bytes) {
    if (arena.size() >= bytes) return;
    arena = Arena();  // not both at once
    arena = Arena(bytes);
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
