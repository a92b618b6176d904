#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/arena.h"
#include "base/dirty_memory.h"
#include "base/error.h"

namespace strata {
namespace {

constexpr Bytes kHugePage = Bytes{2} << 20;

std::atomic<std::int64_t> made = 0;

[[noreturn]] void refuse(Bytes bytes, int reason) {
  throw DeviceError(
      fmt::format("an arena of {} bytes cannot be mapped ({}): lower the memory budgets of the run file",
                  bytes, std::strerror(reason)));
}

}  // namespace

Arena::Arena(Bytes bytes) : size_(bytes) {
  if (bytes <= 0) return;
  // A whole number of huge pages would over-commit small arenas; alignment is what lets the kernel use huge
  // ones at all.
  const bool aligned = bytes >= kHugePage;
  const auto length = static_cast<std::size_t>(bytes + (aligned ? kHugePage : 0));
  void* mapping =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) refuse(bytes, errno);
  ++made;
  data_ = static_cast<std::byte*>(mapping);
  if (aligned) align(length);
  make_dirty(memory());
}

void Arena::align(std::size_t length) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr auto kHuge = static_cast<std::size_t>(kHugePage);
  const auto address = std::bit_cast<std::uintptr_t>(data_);
  const std::size_t head = (kHuge - address % kHuge) % kHuge;
  const std::size_t used = (memory().size() + page - 1) / page * page;
  if (head > 0) munmap(data_, head);
  if (length > head + used) munmap(data_ + head + used, length - head - used);
  data_ += head;
  madvise(data_, used, MADV_HUGEPAGE);  // a hint: a kernel without huge pages is only slower
}

std::int64_t Arena::made_so_far() {
  return made;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, memory().size());
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Bytes Arena::resident_bytes() const {
  if (data_ == nullptr) return 0;
  constexpr std::size_t kPagesPerCall = 4096;
  std::array<unsigned char, kPagesPerCall> state{};
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t size = memory().size();
  std::size_t resident = 0;
  for (std::size_t offset = 0; offset < size; offset += kPagesPerCall * page) {
    const std::size_t length = std::min(size - offset, kPagesPerCall * page);
    if (mincore(data_ + offset, length, state.data()) != 0) {
      throw DeviceError(
          fmt::format("mincore failed on an arena of {} bytes ({})", size_, std::strerror(errno)));
    }
    for (std::size_t i = 0; i * page < length; ++i) {
      if ((state[i] & 1U) != 0) resident += std::min(page, length - i * page);
    }
  }
  return static_cast<Bytes>(resident);
}

}  // namespace strata
