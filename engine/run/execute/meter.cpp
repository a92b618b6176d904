#include "engine/run/execute/meter.h"

#include <algorithm>

namespace strata {

void MeterCount::add(const MeterCount& other) {
  for (const Link link : kLinks) traffic[link] += other.traffic[link];
  for (const Tier tier : kTiers) peak_bytes[tier] = std::max(peak_bytes[tier], other.peak_bytes[tier]);
  outside_bytes += other.outside_bytes;
}

void Meter::watch(Tier tier, const void* memory, Bytes bytes) {
  memory_[tier] = {static_cast<const std::byte*>(memory), bytes};
}

void Meter::touch(const void* memory, Bytes bytes) {
  if (memory == nullptr || bytes <= 0) return;
  const auto* begin = static_cast<const std::byte*>(memory);
  for (const Tier tier : {Tier::device, Tier::host}) {
    const Memory& watched = memory_[tier];
    if (watched.begin == nullptr || begin < watched.begin || begin >= watched.begin + watched.bytes) continue;
    return raise(tier, begin - watched.begin + bytes);
  }
  outside_ += bytes;
}

void Meter::touch(const Matrix& matrix) {
  if (!matrix || matrix.elements() == 0) return;
  touch(matrix.data, ((matrix.rows - 1) * matrix.stride + matrix.columns) * size_of(matrix.dtype));
}

void Meter::touch(const OptimizerState& state) {
  const auto touch_all = [&](const void* values, Bytes element) { touch(values, state.elements * element); };
  const bool is_own_master = state.format.is_own_master(state.precision);
  touch_all(state.master,
            is_own_master ? size_of(state.precision) : state.format.master_bytes(state.precision));
  state.moments.for_each([&](Moment key, const void* moment) { touch(moment, state.moment_bytes(key)); });
  touch_all(state.gradient, size_of(state.precision));
  touch_all(state.parameter, size_of(state.precision));
}

void Meter::move(Link link, Bytes bytes) {
  moved_[link] += bytes;
}

void Meter::raise(Tier tier, Bytes end) {
  std::atomic<Bytes>& highest = ends_[tier];
  Bytes now = highest;
  while (now < end && !highest.compare_exchange_weak(now, end)) {
  }
}

EnumArray<Tier, Bytes> Meter::peaks() const {
  EnumArray<Tier, Bytes> peaks;
  for (const Tier tier : kTiers) peaks[tier] = align_up(ends_[tier].load(), kBufferAlignment);
  return peaks;
}

MeterCount Meter::take() {
  MeterCount count;
  for (const Link link : kLinks) count.traffic[link] = moved_[link].exchange(0);
  for (const Tier tier : kTiers) count.peak_bytes[tier] = align_up(ends_[tier].exchange(0), kBufferAlignment);
  count.outside_bytes = outside_.exchange(0);
  return count;
}

}  // namespace strata
