// The memory of a run: one piece per tier, as large as its programs need.
#pragma once

#include <memory>
#include <string>

#include "base/arena.h"
#include "base/enum_array.h"
#include "engine/device/device.h"
#include "engine/plan/cost/rates.h"
#include "engine/plan/program/memory.h"
#include "offload/store.h"

namespace strata {

/// The tiers' memory; a buffer is at its tier's base plus its offset.
struct TierMemory {
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  /// REQUIRES: not of the nvme tier, which has no addresses.
  std::byte* at(const Buffer& buffer) const {
    return (buffer.tier == Tier::device ? device : host) + buffer.offset;
  }
};

/// The ways to the nvme tier, one for each lane that uses it; null if the run has none.
struct SpillQueues {
  StoreQueue* reads = nullptr;
  StoreQueue* writes = nullptr;
};

class RunMemory {
 public:
  /// `store` says how to use the nvme tier; its size is among `bytes`.
  RunMemory(const EnumArray<Tier, Bytes>& bytes, Device& device, StoreOptions store);

  TierMemory tiers() const { return {device_->data(), host_.data()}; }
  SpillQueues spill() const { return {reads_.get(), writes_.get()}; }
  Bytes device_resident_bytes() const { return device_->resident_bytes(); }

  /// Sets the rates of the nvme tier, if there is one: the better of two large transfers each way. Before
  /// there is any state.
  void measure_nvme(MachineRates& rates);
  std::string describe_nvme() const { return store_ ? store_->describe() : ""; }

 private:
  Arena host_;
  std::unique_ptr<PinnedHostMemory> pinned_;
  std::unique_ptr<DeviceMemory> device_;
  std::unique_ptr<Store> store_;  ///< none if nothing lives there
  std::unique_ptr<StoreQueue> reads_, writes_;
};

}  // namespace strata
