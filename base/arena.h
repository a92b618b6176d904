// The memory of a tier, and any other large block: one anonymous mapping whose size is fixed when it is made,
// so that nothing is allocated while a step runs. Any thread may use the memory; one at a time may move the
// object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/nth.h"

namespace strata {

/// One anonymous mapping of a fixed size: a tier's memory. Pages are touched only where the program writes
/// (in tests all are, see base/dirty_memory.h).
class Arena {
 public:
  Arena() = default;
  /// Throws DeviceError if the machine cannot give `bytes`.
  explicit Arena(Bytes bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  std::span<std::byte> memory() const { return span_of(data_, size_); }
  /// Bytes of pages that were ever touched: what the system really gave (mincore).
  Bytes resident_bytes() const;

  /// Mappings that this process has made for arenas: a test looks whether there are more than before.
  static std::int64_t made_so_far();

 private:
  /// Moves the start of a mapping of `length` bytes to where huge pages start, and gives back the rest.
  void align(std::size_t length);

  std::byte* data_ = nullptr;
  Bytes size_ = 0;
};

}  // namespace strata
