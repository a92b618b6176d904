// What the benchmarks of devices share: the device that STRATA_BENCH_DEVICE names (cpu, the default, or
// cuda), and memory on it. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/device/cpu/cpu_device.h"
#ifdef STRATA_CUDA
#include "engine/device/cuda/cuda_device.h"
#endif
#include "engine/device/elementwise_calls.h"
#include "engine/run/execute/measure.h"

namespace strata::bench {

/// STRATA_BENCH_THREADS sets the CPU's compute threads; left out: one per core.
inline int threads_from_environment() {
  const char* threads = std::getenv("STRATA_BENCH_THREADS");
  return threads == nullptr ? 0 : std::atoi(threads);
}

/// Throws DeviceError if there is no such device.
inline std::unique_ptr<Device> make_device_from_environment() {
  const char* variable = std::getenv("STRATA_BENCH_DEVICE");
  const std::string kind = variable == nullptr ? "cpu" : variable;
  if (kind == "cpu")
    return std::make_unique<CpuDevice>(CpuDeviceOptions{.threads = threads_from_environment(), .link = {}});
#ifdef STRATA_CUDA
  if (kind == "cuda") return std::make_unique<CudaDevice>();
#endif
  throw DeviceError("STRATA_BENCH_DEVICE: " + kind + " is no device of this program");
}

/// Memory of a device with a copy of host values.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Device& device, const std::vector<T>& values)
      : size_(values.size()), memory_(device.allocate(static_cast<Bytes>(size_ * sizeof(T)))) {
    const std::unique_ptr<Stream> stream = device.make_stream();
    stream->copy_to_device(memory_->data(), reinterpret_cast<const std::byte*>(values.data()),
                           static_cast<Bytes>(size_ * sizeof(T)));
    wait_for_all(*stream);
  }
  T* data() const { return reinterpret_cast<T*>(memory_->data()); }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<DeviceMemory> memory_;
};

/// A matrix of its own memory on a device, filled with numbers.
class Operand {
 public:
  Operand(Device& device, DType dtype, std::int64_t rows, std::int64_t columns)
      : bytes_(rows * columns * size_of(dtype)),
        memory_(device.allocate(bytes_)),
        matrix_(memory_->data(), dtype, rows, columns) {
    const std::int64_t elements = rows * columns, pattern = std::min(elements, std::int64_t{1} << 20);
    fill_with_numbers(device, memory_->data(), pattern * size_of(dtype), dtype);
    // The device copies the rest, twice as much each time: the host's copies would take most of a benchmark.
    const std::unique_ptr<Stream> stream = device.make_stream();
    for (std::int64_t filled = pattern; filled < elements; filled *= 2) {
      const std::int64_t count = std::min(filled, elements - filled);
      std::byte* const next = memory_->data() + filled * size_of(dtype);
      stream->kernels().run(Cast{{memory_->data(), dtype, 1, count}, {next, dtype, 1, count}});
    }
    wait_for_all(*stream);
  }
  operator const Matrix&() const { return matrix_; }
  const Matrix& matrix() const { return matrix_; }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  Bytes bytes_;
  std::unique_ptr<DeviceMemory> memory_;
  Matrix matrix_;
};

}  // namespace strata::bench
