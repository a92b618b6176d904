#include "engine/run/generate/unit_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "base/storage_type.h"
#include "base/watchdog.h"
#include "engine/model/model.h"

namespace strata {

void await_event(Event& event) {
  if (!event.wait(Watchdog::kDefaultSeconds))
    throw DeviceError(fmt::format("the device did not end its work within {} s", Watchdog::kDefaultSeconds));
}

UnitParameters::UnitParameters(Device& device, const Model& model, DType precision, ReadParameters read,
                               const ParameterBudget& budget)
    : device_(device),
      model_(model),
      precision_(precision),
      read_(std::move(read)),
      values_(static_cast<std::size_t>(kLargestRead)),
      places_(model.units.size()),
      copies_(device.make_stream()),
      copied_(copies_->make_event()) {
  choose_units(budget);
  memory_ = device.allocate(device_bytes_);
  begin_streaming(budget);
  load_resident();
  if (!streamed_.empty()) fetching_ = std::thread([this] { fetch_all(); });
}

UnitParameters::~UnitParameters() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (fetching_.joinable()) fetching_.join();
}

Bytes UnitParameters::frozen_offset(std::size_t unit) const {
  return align_up(model_.units[unit].elements * size_of(precision_));
}

Bytes UnitParameters::bytes_of(std::size_t unit) const {
  return frozen_offset(unit) + align_up(model_.units[unit].frozen_elements * size_of(precision_));
}

/// The first unit and the last stay: a tied head reads both.
void UnitParameters::choose_units(const ParameterBudget& budget) {
  const std::size_t units = model_.units.size();
  Bytes all = 0, largest = 0;
  for (std::size_t unit = 0; unit < units; ++unit) {
    all += bytes_of(unit);
    if (unit > 0 && unit + 1 < units) largest = std::max(largest, bytes_of(unit));
  }
  const bool fits = all <= budget.device;
  slot_bytes_ = fits ? 0 : largest;
  device_bytes_ = bytes_of(0) + bytes_of(units - 1) + static_cast<Bytes>(kSlots) * slot_bytes_;
  if (!fits && device_bytes_ > budget.device) {
    throw ConfigError(
        fmt::format("{} of device memory are too little for the parameters: embedding, head and two blocks "
                    "take {} ({} bytes)",
                    format_bytes(budget.device), format_bytes(device_bytes_), device_bytes_));
  }
  for (std::size_t unit = 1; unit + 1 < units; ++unit) {
    const Bytes bytes = bytes_of(unit);
    if (streamed_.empty() && (fits || device_bytes_ + bytes <= budget.device)) {
      device_bytes_ += bytes;
    } else {
      streamed_.push_back(unit);
    }
  }
}

void UnitParameters::begin_streaming(const ParameterBudget& budget) {
  std::byte* next = memory_->data();
  const auto take = [&next](Bytes bytes) { return std::exchange(next, next + bytes); };
  for (std::size_t unit = 0; unit < places_.size(); ++unit)
    if (std::ranges::find(streamed_, unit) == streamed_.end()) places_[unit] = take(bytes_of(unit));
  Bytes bytes_on_host = 0, largest = 0;
  for (const std::size_t unit : streamed_) bytes_on_host += bytes_of(unit);
  for (std::size_t unit = 0; unit < places_.size(); ++unit) largest = std::max(largest, bytes_of(unit));
  is_on_host_ = !streamed_.empty() && bytes_on_host <= budget.host;
  const Bytes reading = device_.host_addressable() ? 0 : largest;
  if (const Bytes bytes = reading + (is_on_host_ ? bytes_on_host : 0); bytes > 0) {
    host_ = Arena(bytes);
    pinned_ = device_.pin(span_of(host_.data(), bytes));
  }
  for (Slot& slot : slots_) {
    slot.memory = take(slot_bytes_);
    slot.released = copies_->make_event();
  }
  next = host_.data() + reading;
  for (std::size_t i = 0; is_on_host_ && i < streamed_.size(); ++i) {
    homes_.push_back(take(bytes_of(streamed_[i])));
    read_unit(streamed_[i], homes_.back());
  }
}

void UnitParameters::load_resident() {
  for (std::size_t unit = 0; unit < places_.size(); ++unit)
    if (places_[unit] != nullptr) load(unit, places_[unit]);
}

void UnitParameters::load(std::size_t unit, std::byte* to) {
  if (device_.host_addressable()) return read_unit(unit, to);
  read_unit(unit, host_.data());
  copy_to_device(to, host_.data(), bytes_of(unit));
}

void UnitParameters::read_unit(std::size_t unit, std::byte* to) {
  for (const Flat flat : {Flat::trained, Flat::frozen}) {
    std::byte* const flat_start = flat == Flat::frozen ? to + frozen_offset(unit) : to;
    const std::int64_t elements = model_.units[unit].elements_of(flat);
    for (std::int64_t first = 0; first < elements; first += kLargestRead) {
      const FlatRange range{first, std::min(kLargestRead, elements - first), flat};
      const std::span values(values_.data(), static_cast<std::size_t>(range.count));
      read_(unit, range, values);
      with_storage_type(precision_, [&]<typename T>(T) {
        std::ranges::transform(values, reinterpret_cast<T*>(flat_start) + first,
                               [](float value) { return T(value); });
      });
    }
  }
}

void UnitParameters::copy_to_device(std::byte* device, const std::byte* host, Bytes bytes) {
  copies_->copy_to_device(device, host, bytes);
  copies_->record(*copied_);
  await_event(*copied_);
}

void UnitParameters::acquire(std::size_t unit, UnitMemory& memory) {
  const auto give = [&](std::byte* start, std::size_t of, Region parameter, Region frozen) {
    memory[parameter] = start;
    memory[frozen] = start + frozen_offset(of);
  };
  const std::int32_t shared = model_.units[unit].shares;
  if (shared >= 0) {
    const auto owner = static_cast<std::size_t>(shared);
    give(places_[owner], owner, Region::shared_parameter, Region::shared_frozen);
  }
  std::byte* start = places_[unit];
  if (start == nullptr) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return fetched_ > acquired_ || error_; });
    if (error_) std::rethrow_exception(error_);
    start = slots_[acquired_++ % kSlots].memory;
  }
  give(start, unit, Region::parameter, Region::frozen);
}

void UnitParameters::release(std::size_t unit, Stream& stream) {
  if (places_[unit] != nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    stream.record(*slots_[released_ % kSlots].released);
    ++released_;
  }
  changed_.notify_all();
}

void UnitParameters::fetch_all() {
  try {
    for (std::size_t visit = 0;; ++visit) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ending_ || visit < released_ + kSlots; });
        if (is_ending_) return;
      }
      fetch(visit);
      {
        const std::lock_guard lock(mutex_);
        fetched_ = visit + 1;
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

void UnitParameters::fetch(std::size_t visit) {
  const std::size_t index = visit % streamed_.size();
  const std::size_t unit = streamed_[index];
  const Slot& slot = slots_[visit % kSlots];
  if (visit >= kSlots) await_event(*slot.released);
  if (is_on_host_) {
    copy_to_device(slot.memory, homes_[index], bytes_of(unit));
  } else {
    load(unit, slot.memory);
  }
}

}  // namespace strata
