#include "engine/run/execute/run_memory.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/nth.h"
#include "engine/run/execute/measure.h"

namespace strata {
namespace {

std::unique_ptr<Store> open_store_of(Bytes bytes, StoreOptions options) {
  options.bytes = bytes;
  return bytes > 0 ? open_store(options) : nullptr;
}

}  // namespace

RunMemory::RunMemory(const EnumArray<Tier, Bytes>& bytes, Device& device, StoreOptions store)
    : host_(bytes[Tier::host]),
      pinned_(device.pin(host_.memory())),
      device_(device.allocate(bytes[Tier::device])),
      store_(open_store_of(bytes[Tier::nvme], std::move(store))),
      reads_(store_ ? store_->open_queue() : nullptr),
      writes_(store_ ? store_->open_queue() : nullptr) {}

void RunMemory::measure_nvme(MachineRates& rates) {
  if (!store_) return;
  // What is written is read again, so the host's memory stays as it is.
  constexpr Bytes kMeasured = 256 * MiB;
  const Bytes bytes =
      std::min({kMeasured, store_->bytes(), host_.size()}) / kBufferAlignment * kBufferAlignment;
  const std::span memory = span_of(host_.data(), bytes);
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds; };
  for (int repetition = 0; repetition < 2; ++repetition) {
    rates.nvme_write_bytes_per_second = std::max(rates.nvme_write_bytes_per_second,
                                                 rate(seconds_on_host([&] { writes_->write(0, memory); })));
    rates.nvme_read_bytes_per_second =
        std::max(rates.nvme_read_bytes_per_second, rate(seconds_on_host([&] { reads_->read(0, memory); })));
  }
}

}  // namespace strata
