// What the benchmarks of devices share: the device that STRATA_BENCH_DEVICE names (cpu, the default, or
// cuda), memory on it that is filled through a stream, and time by its events. One thread.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/device/cpu/cpu_device.h"
#ifdef STRATA_CUDA
#include "engine/device/cuda/cuda_device.h"
#endif

namespace strata::bench {

/// STRATA_BENCH_THREADS sets the CPU's compute threads; left out: one per core.
inline int threads_from_environment() {
  const char* threads = std::getenv("STRATA_BENCH_THREADS");
  return threads == nullptr ? 0 : std::atoi(threads);
}

/// Throws DeviceError where there is no such device.
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

inline void wait_for(Event& event) {
  constexpr double kLongestSeconds = 120;
  if (!event.wait(kLongestSeconds)) throw DeviceError("the device did not finish within two minutes");
}

inline void wait_for_all(Stream& stream) {
  const std::unique_ptr<Event> event = stream.make_event();
  stream.record(*event);
  wait_for(*event);
}

/// Time on the device of what `issue` issues to `stream`.
template <typename Issue>
double seconds_on_device(Stream& stream, const Issue& issue) {
  const std::unique_ptr<Event> start = stream.make_event(), end = stream.make_event();
  stream.record(*start);
  issue();
  stream.record(*end);
  wait_for(*end);
  return end->seconds_since(*start);
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

/// A matrix of its own memory on a device, filled with numbers in (-1/2, 1/2) whose bits vary as those of
/// real data do: on zeros a GPU saves power and looks faster than it is.
class Operand {
 public:
  Operand(Device& device, DType dtype, std::int64_t rows, std::int64_t columns)
      : bytes_(rows * columns * size_of(dtype)),
        memory_(device.allocate(bytes_)),
        matrix_(memory_->data(), dtype, rows, columns) {
    const std::vector<std::byte>& pattern = pattern_of(dtype);
    const std::unique_ptr<Stream> stream = device.make_stream();
    const auto period = static_cast<Bytes>(pattern.size());
    for (Bytes first = 0; first < bytes_; first += period)
      stream->copy_to_device(memory_->data() + first, pattern.data(), std::min(period, bytes_ - first));
    wait_for_all(*stream);
  }
  operator const Matrix&() const { return matrix_; }
  const Matrix& matrix() const { return matrix_; }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  template <typename T>
  static std::vector<std::byte> make_pattern() {
    constexpr std::int64_t kPeriod = 2003, kPeriods = 1024;
    std::vector<T> values;
    for (std::int64_t i = 0; i < kPeriod * kPeriods; ++i)
      values.push_back(T(static_cast<float>(i * 7919 % kPeriod - kPeriod / 2) / static_cast<float>(kPeriod)));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    return {bytes, bytes + values.size() * sizeof(T)};
  }
  /// Some MiB of values that fit one another end to end.
  static const std::vector<std::byte>& pattern_of(DType dtype) {
    static const std::vector<std::byte> fp32 = make_pattern<float>(), bf16 = make_pattern<bfloat16>(),
                                        fp16 = make_pattern<float16>();
    return dtype == DType::fp32 ? fp32 : dtype == DType::bf16 ? bf16 : fp16;
  }

  Bytes bytes_;
  std::unique_ptr<DeviceMemory> memory_;
  Matrix matrix_;
};

}  // namespace strata::bench
