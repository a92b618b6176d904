#include "engine/execute/machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/base/storage_type.h"
#include "engine/base/task_arena.h"
#include "offload/arena.h"
#include "optim/adamw.h"

namespace strata {
namespace {

constexpr double kWatchdogSeconds = 60;

/// Units of work per second: the best of a few repetitions after one that warms up.
double best_rate(double work, const std::function<double()>& seconds) {
  seconds();
  double shortest = seconds();
  for (int repetition = 0; repetition < 2; ++repetition) shortest = std::min(shortest, seconds());
  return work / shortest;
}

double seconds_on_device(Stream& stream, const std::function<void()>& issue) {
  const std::unique_ptr<Event> start = stream.make_event(), end = stream.make_event();
  stream.record(*start);
  issue();
  stream.record(*end);
  if (!end->wait(kWatchdogSeconds))
    throw DeviceError("the device did not finish a measurement; is it shared or broken?");
  return end->seconds_since(*start);
}

double seconds_on_host(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Random numbers, over and over. Zeros would not do: a GPU draws less power on them, and runs faster than it
/// ever will.
void fill(Device& device, Stream& stream, std::byte* memory, Bytes bytes, DType dtype) {
  constexpr std::int64_t kElements = 1 << 20;
  std::vector<std::byte> pattern(static_cast<std::size_t>(kElements * size_of(dtype)));
  const CounterRandom random(1, 0);
  with_storage_type(dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < kElements; ++i) {
      reinterpret_cast<T*>(pattern.data())[i] = T(random.normal(static_cast<std::uint64_t>(i)));
    }
  });
  const auto length = static_cast<Bytes>(pattern.size());
  for (Bytes at = 0; at < bytes; at += length) {
    const Bytes piece = std::min(length, bytes - at);
    if (device.host_addressable()) {  // not over a link that may be throttled
      std::memcpy(memory + at, pattern.data(), static_cast<std::size_t>(piece));
    } else {
      stream.copy_to_device(memory + at, pattern.data(), piece);
    }
  }
  const std::unique_ptr<Event> copied = stream.make_event();
  stream.record(*copied);
  if (!copied->wait(kWatchdogSeconds))
    throw DeviceError("the device did not take a copy; is it shared or broken?");
}

double product_rate(Device& device, Stream& stream, DType dtype) {
  // Large enough to fill the device, small enough to take some milliseconds.
  const std::int64_t side = device.host_addressable() ? 2048 : 8192;
  const Bytes bytes = side * side * size_of(dtype);
  const std::unique_ptr<DeviceMemory> memory = device.allocate(3 * bytes);
  const auto matrix = [&](int index) { return Matrix(memory->data() + index * bytes, dtype, side, side); };
  fill(device, stream, memory->data(), 2 * bytes, dtype);
  const auto length = static_cast<double>(side);
  const Product product{
      .a = matrix(0), .transpose_a = false, .b = matrix(1), .transpose_b = true, .out = matrix(2)};
  return best_rate(2 * length * length * length,
                   [&] { return seconds_on_device(stream, [&] { stream.kernels().matmul(product); }); });
}

/// Bytes per second of `adamw` on memory that no cache holds.
double host_memory_rate(int threads) {
  constexpr std::int64_t kElements = 16 << 20;
  constexpr Bytes kStateBytes = 3 * 4 + 2 * 2;  // fp32 master and moments, bf16 gradient and parameter
  constexpr double kMovedBytes =
      2 * 3 * 4 + 2 + 2;  // the state is read and written, the gradient read, the parameter written
  Arena arena(kElements * kStateBytes);
  std::memset(arena.data(), 0, static_cast<std::size_t>(arena.size()));
  auto* state = reinterpret_cast<float*>(arena.data());
  auto* halves = reinterpret_cast<bfloat16*>(state + 3 * kElements);
  const auto stretch = [&](int index) {
    return std::span(state + index * kElements, static_cast<std::size_t>(kElements));
  };
  const AdamWCoefficients step = coefficients({.learning_rate = 0, .step = 1});
  const AdamWState all{.master = stretch(0),
                       .exp_avg = stretch(1),
                       .exp_avg_sq = stretch(2),
                       .gradient = halves,
                       .gradient_dtype = DType::bf16,
                       .parameter = halves + kElements};
  TaskArena workers(threads);
  return best_rate(kMovedBytes * static_cast<double>(kElements),
                   [&] { return seconds_on_host([&] { workers.execute([&] { adamw(step, all); }); }); });
}

}  // namespace

MachineRates measure_machine(Device& device, DType dtype, const LinkLimit& link, int threads) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  MachineRates rates;
  rates.cores_copy = device.host_addressable();
  rates.flops_per_second = product_rate(device, *stream, dtype);
  rates.memory_bytes_per_second = host_memory_rate(threads);
  constexpr Bytes kCopied = 64 * MiB;
  Arena host(kCopied);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device.pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> memory = device.allocate(kCopied);
  const auto rate = [&](std::optional<double> limit, const std::function<void()>& copy) {
    if (limit) return *limit;
    return best_rate(static_cast<double>(kCopied), [&] { return seconds_on_device(*stream, copy); });
  };
  rates.h2d_bytes_per_second =
      rate(link.to_device, [&] { stream->copy_to_device(memory->data(), host.data(), kCopied); });
  rates.d2h_bytes_per_second =
      rate(link.to_host, [&] { stream->copy_to_host(host.data(), memory->data(), kCopied); });
  return rates;
}

}  // namespace strata
