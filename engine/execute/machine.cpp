#include "engine/execute/machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "offload/arena.h"
namespace strata {
namespace {

/// Units of work per second: the best of a few repetitions after one that warms up.
double best_rate(double work, const std::function<void()>& run) {
  double best = 0;
  for (int repetition = 0; repetition < 4; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (repetition > 0) best = std::max(best, work / elapsed.count());
  }
  return best;
}

}  // namespace

MachineRates measure_machine(Kernels& kernels, DType dtype, const LinkLimit& link) {
  constexpr std::int64_t kSide = 2048;
  const Bytes matrix_bytes = kSide * kSide * size_of(dtype);
  Arena arena(4 * 64 * MiB);
  std::memset(arena.data(), 0, static_cast<std::size_t>(arena.size()));
  const Matrix a(arena.data(), dtype, kSide, kSide);
  const Matrix b(arena.data() + matrix_bytes, dtype, kSide, kSide);
  const Matrix out(arena.data() + 2 * matrix_bytes, dtype, kSide, kSide);
  MachineRates rates;
  rates.flops_per_second = best_rate(2.0 * kSide * kSide * kSide, [&] {
    kernels.matmul({.a = a, .transpose_a = false, .b = b, .transpose_b = true, .out = out});
  });
  constexpr Bytes kStream = 64 * MiB;
  const auto stream = [&](int index) { return Matrix(arena.data() + index * kStream, DType::fp32, 1, kStream / 4); };
  rates.memory_bytes_per_second = best_rate(3.0 * kStream, [&] { kernels.add(stream(0), stream(1), stream(2)); });
  const double copy = best_rate(static_cast<double>(kStream), [&] {
    std::memcpy(arena.data() + 3 * kStream, arena.data(), static_cast<std::size_t>(kStream));
  });
  rates.h2d_bytes_per_second = link.to_device.value_or(copy);
  rates.d2h_bytes_per_second = link.to_host.value_or(copy);
  return rates;
}

}  // namespace strata
