// What memory holds when it is handed out. Strata counts on nothing: drives and devices give what was there
// before, and only the system's own pages are zeros. So that nothing comes to rely on those, every tier's
// memory is filled with 0xFF, NaN in every dtype, if STRATA_DIRTY_MEMORY is set in the environment, as it
// is in all tests.
#pragma once

#include <cstddef>
#include <span>

namespace strata {

constexpr std::byte kDirt{0xFF};

/// Whether memory is filled with kDirt before it is handed out. Any thread.
bool memory_is_dirty();
/// Fills new memory if that is so.
void make_dirty(std::span<std::byte> memory);

/// For tests that ask for the one or the other: while it lives, new memory is dirty or left alone. One at a
/// time.
class DirtyMemory {
 public:
  explicit DirtyMemory(bool dirty);
  ~DirtyMemory();
  DirtyMemory(const DirtyMemory&) = delete;
  DirtyMemory& operator=(const DirtyMemory&) = delete;

 private:
  bool before_;
};

}  // namespace strata
