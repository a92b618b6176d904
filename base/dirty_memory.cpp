#include "base/dirty_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace strata {
namespace {

/// Read once; a value of no characters counts as none.
std::atomic<bool>& is_dirty() {
  static std::atomic<bool> dirty = [] {
    const char* value = std::getenv("STRATA_DIRTY_MEMORY");
    return value != nullptr && *value != '\0';
  }();
  return dirty;
}

}  // namespace

bool memory_is_dirty() {
  return is_dirty();
}

void make_dirty(std::span<std::byte> memory) {
  if (memory_is_dirty()) std::ranges::fill(memory, kDirt);
}

DirtyMemory::DirtyMemory(bool dirty) : before_(is_dirty().exchange(dirty)) {}
DirtyMemory::~DirtyMemory() {
  is_dirty() = before_;
}

}  // namespace strata
