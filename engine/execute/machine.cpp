#include "engine/execute/machine.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/arena.h"
#include "base/host_memory.h"
#include "base/task_arena.h"
#include "engine/execute/measure.h"

namespace strata {
namespace {

/// Units of work per second: the best of a few repetitions after one that warms up.
double best_rate(double work, const std::function<double()>& seconds) {
  seconds();
  double shortest = seconds();
  for (int repetition = 0; repetition < 2; ++repetition) shortest = std::min(shortest, seconds());
  return work / shortest;
}

/// At most `bytes`, and no more than a small container can spare.
Bytes spared(Bytes bytes) {
  return std::min(bytes, usable_memory() / 16);
}

/// Bytes per second of AdamW on memory that no cache holds.
double host_memory_rate(int threads) {
  const std::int64_t parameters = spared(256 * MiB) / 16;
  double rate = 0;
  TaskArena(threads).execute([&] {
    const HostUpdate update(parameters);
    rate = best_rate(update.bytes(), [&] { return seconds_on_host([&] { update.run(); }); });
  });
  return rate;
}

}  // namespace

double product_rate(Device& device, const Precision& precision) {
  const DType dtype = precision.storage;
  // Large enough to fill the device, small enough to take some milliseconds.
  const std::int64_t side = device.host_addressable() ? 2048 : 8192;
  const Bytes bytes = side * side * size_of(dtype);
  const std::unique_ptr<DeviceMemory> memory = device.allocate(3 * bytes);
  const auto matrix = [&](int index) { return Matrix(memory->data() + index * bytes, dtype, side, side); };
  fill_with_numbers(device, memory->data(), 2 * bytes, dtype);
  const std::unique_ptr<Stream> stream = device.make_stream();
  const auto length = static_cast<double>(side);
  const Product product{.a = matrix(0),
                        .transpose_a = false,
                        .b = matrix(1),
                        .transpose_b = true,
                        .out = matrix(2),
                        .rounding = precision.products};
  return best_rate(2 * length * length * length,
                   [&] { return seconds_on_device(*stream, [&] { stream->kernels().run(product); }); });
}

MachineRates measure_machine(Device& device, const Precision& precision, const LinkLimit& link, int threads) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  MachineRates rates;
  rates.cores_copy = device.host_addressable();
  rates.flops_per_second = product_rate(device, precision);
  rates.memory_bytes_per_second = host_memory_rate(threads);
  const Bytes copied = spared(64 * MiB);
  Arena host(copied);
  const std::unique_ptr<PinnedHostMemory> pinned =
      device.pin({host.data(), static_cast<std::size_t>(host.size())});
  const std::unique_ptr<DeviceMemory> memory = device.allocate(copied);
  const auto rate = [&](std::optional<double> limit, const std::function<void()>& copy) {
    if (limit) return *limit;
    return best_rate(static_cast<double>(copied), [&] { return seconds_on_device(*stream, copy); });
  };
  rates.h2d_bytes_per_second =
      rate(link.to_device, [&] { stream->copy_to_device(memory->data(), host.data(), copied); });
  rates.d2h_bytes_per_second =
      rate(link.to_host, [&] { stream->copy_to_host(host.data(), memory->data(), copied); });
  if (rates.cores_copy) {
    rates.cores = threads;
    rates.copy_bytes_per_second = best_rate(static_cast<double>(copied), [&] {
      return seconds_on_host([&] { std::memcpy(memory->data(), host.data(), copied); });
    });
  }
  return rates;
}

}  // namespace strata
