#include "offload/page_checksums.h"

#include <algorithm>

#include "base/hash.h"
#include "base/nth.h"
#include "offload/store.h"

namespace strata {
namespace {

constexpr std::size_t kPage = kStoreAlignment;
constexpr std::uint64_t kNeverWritten = 0;

std::uint64_t checksum(std::span<const std::byte> page) {
  const std::uint64_t hash = hash_bytes(page);
  return hash == kNeverWritten ? 1 : hash;
}

}  // namespace

PageChecksums::PageChecksums(Bytes store_bytes)
    : memory_(align_up(store_bytes, kStoreAlignment) / kStoreAlignment *
              static_cast<Bytes>(sizeof(std::uint64_t))),
      sums_(reinterpret_cast<std::uint64_t*>(memory_.data()),
            memory_.memory().size() / sizeof(std::uint64_t)) {
  std::ranges::fill(sums_, kNeverWritten);
}

void PageChecksums::record(Bytes offset, std::span<const std::byte> written) {
  auto sum = sums_.begin() + offset / kStoreAlignment;
  for (; !written.empty(); written = written.subspan(kPage)) *sum++ = checksum(written.first(kPage));
}

std::optional<PageChecksums::Mismatch> PageChecksums::check(Bytes offset,
                                                            std::span<const std::byte> read) const {
  for (; !read.empty(); read = read.subspan(kPage), offset += kStoreAlignment) {
    const std::uint64_t expected = nth(sums_, offset / kStoreAlignment);
    if (expected != checksum(read.first(kPage))) return Mismatch{offset, expected == kNeverWritten};
  }
  return std::nullopt;
}

}  // namespace strata
