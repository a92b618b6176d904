#include "tests/support/allocations.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

/// Each thread has its own, which it alone writes: an atomic addition would be a tenth of a test's time.
struct Counters {
  std::atomic<std::int64_t> all = 0, large = 0, bytes = 0;
  Counters* next = nullptr;
};
std::atomic<Counters*> first = nullptr;  // of all threads there have been
constinit thread_local Counters* own = nullptr;

Counters& counters() {
  if (own != nullptr) return *own;
  own = new (std::malloc(sizeof(Counters))) Counters;
  own->next = first;
  while (!first.compare_exchange_weak(own->next, own)) {
  }
  return *own;
}

void add(std::atomic<std::int64_t>& counter, std::int64_t number) {
  counter.store(counter.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  Counters& now = counters();
  add(now.all, 1);
  add(now.bytes, static_cast<std::int64_t>(bytes));
  if (bytes >= strata::test::kLargeAllocation) add(now.large, 1);
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
  for (const Counters* counters = first; counters != nullptr; counters = counters->next) {
    sum.all += counters->all;
    sum.large += counters->large;
    sum.bytes += counters->bytes;
  }
  return sum;
}

}  // namespace strata::test
