// Counts what steps really touch and move, where it is handed over: each range of memory that a copy, a
// kernel or a host lane is given, and each byte of a copy. Nothing here comes from the plan, so the plan can
// be held against it. Any thread may call.
#pragma once

#include <atomic>
#include <span>

#include "base/enum_array.h"
#include "engine/device/matrix.h"
#include "engine/plan/program/traffic.h"
#include "optim/optimizer_state.h"

namespace strata {

/// What was touched and moved.
struct MeterCount {
  Traffic traffic;
  /// For each tier, the end of the highest byte that was touched, rounded up to whole buffer pages, which
  /// buffers are aligned to.
  EnumArray<Tier, Bytes> peak_bytes = {};
  Bytes outside_bytes = 0;  ///< ranges that lie in no tier's memory

  void add(const MeterCount& other);
};

class Meter {
 public:
  /// The memory of a tier. Before anything is counted.
  void watch(Tier tier, const void* memory, Bytes bytes);

  /// A range that is read or written. An empty one, or one at null, is none.
  void touch(const void* memory, Bytes bytes);
  template <typename T>
  void touch(std::span<T> values) {
    touch(values.data(), static_cast<Bytes>(values.size_bytes()));
  }
  void touch(const Matrix& matrix);
  void touch(const OptimizerState& state);
  /// Bytes of the nvme tier, which have no address.
  void touch_nvme(Bytes end) { raise(Tier::nvme, end); }
  void move(Link link, Bytes bytes);

  /// What was counted since the call before.
  MeterCount take();
  /// Those that take() would give, without taking them.
  EnumArray<Tier, Bytes> peaks() const;

 private:
  struct Memory {
    const std::byte* begin = nullptr;
    Bytes bytes = 0;
  };
  void raise(Tier tier, Bytes end);

  EnumArray<Tier, Memory> memory_;
  EnumArray<Tier, std::atomic<Bytes>> ends_ = {};
  EnumArray<Link, std::atomic<Bytes>> moved_ = {};
  std::atomic<Bytes> outside_ = 0;
};

}  // namespace strata
