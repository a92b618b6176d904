#include "tests/support/allocations.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

/// Threads have several to count with, so that they do not wait for one another.
struct alignas(64) Counters {
  std::atomic<std::int64_t> all = 0, large = 0, bytes = 0;
};
std::array<Counters, 64> of_threads;
std::atomic<std::size_t> threads = 0;
thread_local Counters& own = of_threads[threads++ % of_threads.size()];

constexpr std::size_t kUsual = alignof(std::max_align_t);

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  own.all.fetch_add(1, std::memory_order_relaxed);
  own.bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  if (bytes >= strata::test::kLargeAllocation) own.large.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  return alignment <= kUsual ? std::malloc(whole) : std::aligned_alloc(alignment, whole);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Every form is replaced: a sanitizer brings its own of any that is not, and refuses the mixture.
void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, kUsual);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, kUsual);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, kUsual);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, kUsual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace strata::test {

Allocations allocations_so_far() {
  Allocations sum;
  for (const Counters& counters : of_threads) {
    sum.all += counters.all;
    sum.large += counters.large;
    sum.bytes += counters.bytes;
  }
  return sum;
}

}  // namespace strata::test
