#include "engine/run/execute/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/nth.h"
#include "base/random.h"
#include "base/storage_type.h"
#include "base/task_arena.h"
#include "optim/state_parts.h"
#include "optim/update.h"

namespace strata {
namespace {

/// Writes the pattern over and over.
void fill(Device& device, std::byte* memory, Bytes bytes, const std::vector<std::byte>& pattern) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  const auto length = static_cast<Bytes>(pattern.size());
  for (Bytes at = 0; at < bytes; at += length) {
    const Bytes piece = std::min(length, bytes - at);
    if (device.host_addressable()) {  // not over a link that may be throttled
      std::memcpy(memory + at, pattern.data(), static_cast<std::size_t>(piece));
    } else {
      stream->copy_to_device(memory + at, pattern.data(), piece);
    }
  }
  wait_for_all(*stream);
}

}  // namespace

double seconds_on_host(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double seconds_on_device(Stream& stream, const std::function<void()>& issue) {
  const std::unique_ptr<Event> start = stream.make_event(), end = stream.make_event();
  stream.record(*start);
  issue();
  stream.record(*end);
  wait_for(*end);
  return end->seconds_since(*start);
}

void wait_for(Event& event) {
  constexpr double kLongestSeconds = 120;
  if (!event.wait(kLongestSeconds))
    throw DeviceError("the device did not finish within two minutes; is it shared or broken?");
}

void wait_for_all(Stream& stream) {
  const std::unique_ptr<Event> event = stream.make_event();
  stream.record(*event);
  wait_for(*event);
}

void fill_with_numbers(Device& device, std::byte* memory, Bytes bytes, DType dtype) {
  const std::int64_t elements = std::clamp(bytes / size_of(dtype), std::int64_t{1}, std::int64_t{1} << 20);
  auto pattern = sized<std::vector<std::byte>>(elements * size_of(dtype));
  const CounterRandom random(1, 0);
  with_storage_type(dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < elements; ++i) {
      reinterpret_cast<T*>(pattern.data())[i] = T(random.normal(static_cast<std::uint64_t>(i)));
    }
  });
  fill(device, memory, bytes, pattern);
}

void fill_with_zeros(Device& device, std::byte* memory, Bytes bytes) {
  fill(device, memory, bytes, sized<std::vector<std::byte>>(std::min(bytes, MiB)));
}

HostUpdate::HostUpdate(std::int64_t parameters, UpdateRule rule, const StateFormat& format)
    : state_{.rule = rule, .precision = DType::bf16, .format = format, .elements = parameters} {
  constexpr Bytes kElement = size_of(DType::bf16);
  state_.format.kept = moments_of(rule);
  arena_ =
      Arena(parameters * kElement + state_.format.state_bytes(DType::bf16, parameters) + 5 * 16 * kPhase);
  std::byte* next = arena_.data();
  const auto take_bytes = [&](Bytes bytes) { return std::exchange(next, next + bytes + kPhase); };
  const auto take = [&](Bytes element) { return take_bytes(parameters * element); };
  const bool is_own_master = format.is_own_master(DType::bf16);
  state_.master = take(is_own_master ? kElement : format.master_bytes(DType::bf16));
  state_.format.kept.for_each(
      [&](Moment moment) { state_.of(moment) = take_bytes(format.moment_bytes(moment, parameters)); });
  state_.parameter = is_own_master ? state_.master : take(kElement);
  auto* gradient = reinterpret_cast<bfloat16*>(take(kElement));
  state_.gradient = gradient;
  const auto value_of = [](std::int64_t i) { return static_cast<float>(i % 1013) * 1e-3F - 0.5F; };
  const auto square_of = [&](std::int64_t i) { return 0.01F * value_of(i) * value_of(i); };  // not negative
  with_state_types(DType::bf16, format, [&]<typename Master, typename Stored>(auto, Master, Stored) {
    for_chunks(state_, [&](const OptimizerState& part) {
      for (std::int64_t i = 0; i < part.elements; ++i) {
        static_cast<bfloat16*>(part.parameter)[i] = gradient[part.first + i] =
            bfloat16(value_of(part.first + i));
        static_cast<Master*>(part.master)[i] = Master(value_of(part.first + i));
      }
      with_decoded(part, part.format.kept, 0, MomentCoder(), [&](const OptimizerState& decoded) {
        part.format.kept.for_each([&](Moment moment) {
          auto* stored = static_cast<Stored*>(decoded.of(moment));
          for (std::int64_t i = 0; i < decoded.elements; ++i)
            stored[i] = Stored(square_of(decoded.first + i));
        });
      });
    });
  });
}

OptimizerState HostUpdate::with_phase(Bytes phase) const {
  OptimizerState state = state_;
  Bytes arrays_before = 0;
  const auto moved = [&](auto* array) {
    return static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array))) +
           ++arrays_before * (phase - kPhase);
  };
  state.format.kept.for_each([&](Moment moment) { state.of(moment) = moved(state.of(moment)); });
  if (!state.format.is_own_master(state.precision)) state.parameter = moved(state.parameter);
  state.gradient = moved(state.gradient);
  return state;
}

void HostUpdate::run() const {
  update(coefficients({.policy = {.rule = state_.rule, .weight_decay = 0.1F},
                       .learning_rate = 1e-4F,
                       .gradient_scale = 0.5F,
                       .step = 10}),
         state_);
}

double HostUpdate::bytes() const {
  return static_cast<double>(state_.format.update_bytes(state_.precision, state_.elements));
}

}  // namespace strata
