// What a machine can do, for other figures to be held against: matrix products, copies within the device's
// memory and over its link, one direction and both at once, the host's memory, a disk. Prints a JSON object
// per figure and line.
//   build/bench/bench_ceilings [FOLDER]
// FOLDER is on the disk to measure; left out: no disk. STRATA_BENCH_DEVICE and STRATA_BENCH_THREADS as for
// bench_kernels.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iostream>
#include <system_error>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/file.h"
#include "base/task_arena.h"
#include "base/topology.h"
#include "bench/device.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/product_calls.h"

namespace strata {
namespace {

using bench::Operand;

/// Work of one repetition and how often it is repeated: enough for a GPU to reach the clocks that it keeps.
struct Effort {
  std::int64_t product_side;
  Bytes copied_in_device, copied_over_link;
  int calls;  ///< per repetition
  int repetitions;
};
constexpr Effort kCpuEffort = {2048, 256 * MiB, 256 * MiB, 1, 7};
constexpr Effort kGpuEffort = {8192, 2 * GiB, 256 * MiB, 20, 15};

/// `seconds` of each repetition, of `work` each.
void print(const std::string& figure, const std::string& unit, double work, std::vector<double> seconds,
           const std::string& what) {
  std::sort(seconds.begin(), seconds.end());
  fmt::print(
      "{{\"figure\": \"{}\", \"median\": {:.6g}, \"best\": {:.6g}, \"unit\": \"{}\", \"what\": \"{}\"}}\n",
      figure, work / seconds[seconds.size() / 2], work / seconds.front(), unit, what);
  std::fflush(stdout);
}

std::vector<double> repeat(int repetitions, const std::function<double()>& seconds) {
  seconds();
  std::vector<double> result(static_cast<std::size_t>(repetitions));
  std::ranges::generate(result, seconds);
  return result;
}

void measure_products(Device& device, const Effort& effort, DType dtype) {
  const std::int64_t side = effort.product_side;
  const Operand a(device, dtype, side, side), b(device, dtype, side, side), out(device, dtype, side, side);
  const std::unique_ptr<Stream> stream = device.make_stream();
  const auto length = static_cast<double>(side);
  const auto multiply = [&] {
    for (int i = 0; i < effort.calls; ++i)
      stream->kernels().run(Product{.a = a, .b = b, .transpose_b = true, .out = out});
  };
  print(fmt::format("gemm_{}", name_of(dtype)), "FLOP/s", effort.calls * 2 * length * length * length,
        repeat(effort.repetitions, [&] { return seconds_on_device(*stream, multiply); }),
        fmt::format("{0} x {0} x {0}, one factor transposed", side));
}

void measure_device_copy(Device& device, const Effort& effort) {
  constexpr std::int64_t kColumns = 8192;
  const std::int64_t rows = effort.copied_in_device / (kColumns * size_of(DType::bf16));
  const Operand from(device, DType::bf16, rows, kColumns), to(device, DType::bf16, rows, kColumns);
  const std::unique_ptr<Stream> stream = device.make_stream();
  const auto copy = [&] {
    for (int i = 0; i < effort.calls; ++i) stream->kernels().run(Cast{from, to});
  };
  print("device_copy", "B/s", effort.calls * 2 * from.bytes(),
        repeat(effort.repetitions, [&] { return seconds_on_device(*stream, copy); }),
        fmt::format("cast of {} from bf16 to bf16; bytes read and bytes written",
                    format_bytes(effort.copied_in_device)));
}

/// Pinned host memory with device memory of its size.
struct LinkEnds {
  LinkEnds(Device& device, Bytes bytes)
      : bytes(bytes),
        host(bytes),
        pinned(device.pin({host.data(), static_cast<std::size_t>(bytes)})),
        memory(device.allocate(bytes)) {
    std::memset(host.data(), 1, static_cast<std::size_t>(bytes));
  }
  void to_device(Stream& stream) const { stream.copy_to_device(memory->data(), host.data(), bytes); }
  void to_host(Stream& stream) const { stream.copy_to_host(host.data(), memory->data(), bytes); }

  Bytes bytes;
  Arena host;
  std::unique_ptr<PinnedHostMemory> pinned;
  std::unique_ptr<DeviceMemory> memory;
};

struct BothWays {
  double to_device, to_host;  ///< seconds
};

/// Copies both ways that start together. A thread each: the CPU device copies before its calls return.
BothWays copy_both_ways(Stream& up, Stream& down, const std::function<void()>& to_device,
                        const std::function<void()>& to_host) {
  const std::unique_ptr<Event> start = up.make_event(), up_end = up.make_event(),
                               down_end = down.make_event();
  up.record(*start);
  down.wait(*start);
  std::thread other([&] {
    to_host();
    down.record(*down_end);
  });
  to_device();
  up.record(*up_end);
  other.join();
  wait_for(*up_end);
  wait_for(*down_end);
  return {up_end->seconds_since(*start), down_end->seconds_since(*start)};
}

void measure_link(Device& device, const Effort& effort) {
  const LinkEnds up_ends(device, effort.copied_over_link), down_ends(device, effort.copied_over_link);
  const std::unique_ptr<Stream> up = device.make_stream(), down = device.make_stream();
  const auto to_device = [&] {
    for (int i = 0; i < effort.calls; ++i) up_ends.to_device(*up);
  };
  const auto to_host = [&] {
    for (int i = 0; i < effort.calls; ++i) down_ends.to_host(*down);
  };
  const double bytes = effort.calls * static_cast<double>(effort.copied_over_link);
  const std::string what = fmt::format("pinned memory of {}", format_bytes(effort.copied_over_link));
  print("h2d", "B/s", bytes, repeat(effort.repetitions, [&] { return seconds_on_device(*up, to_device); }),
        what);
  print("d2h", "B/s", bytes, repeat(effort.repetitions, [&] { return seconds_on_device(*down, to_host); }),
        what);

  std::vector<double> up_seconds, down_seconds;
  for (int i = 0; i < effort.repetitions; ++i) {
    const BothWays seconds = copy_both_ways(*up, *down, to_device, to_host);
    up_seconds.push_back(seconds.to_device);
    down_seconds.push_back(seconds.to_host);
  }
  print("h2d_with_d2h", "B/s", bytes, up_seconds, "both directions at once; " + what);
  print("d2h_with_h2d", "B/s", bytes, down_seconds, "both directions at once; " + what);
}

/// AdamW as the host lane runs it, on memory that no cache holds.
void measure_host_memory(int threads, int repetitions) {
  constexpr std::int64_t kParameters = 64 << 20;
  TaskArena(threads).execute([&] {
    const HostUpdate update(kParameters);
    print("host_adamw", "B/s", update.bytes(),
          repeat(repetitions, [&] { return seconds_on_host([&] { update.run(); }); }),
          fmt::format("{} bytes per parameter of {} parameters, {} threads", update.bytes() / kParameters,
                      kParameters, threads));
  });
}

constexpr Bytes kFileBytes = 1 * GiB, kBlock = 8 * MiB;
constexpr int kDiskThreads = 4;

[[noreturn]] void throw_io_error(const std::string& folder, const char* operation) {
  throw IoError(fmt::format("{}: {}: {}", folder, operation, std::generic_category().message(errno)));
}

/// A file without a name: it is gone when the descriptor is closed, however the program ends.
FileDescriptor unnamed_file(const std::string& folder) {
  std::string path = folder + "/strata-ceiling-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_DIRECT);
  if (descriptor < 0) throw_io_error(folder, "open with O_DIRECT");
  FileDescriptor file(descriptor);
  ::unlink(path.c_str());
  return file;
}

/// Every block of the file through `transfer(buffer, offset)`, on some threads; false if one failed.
template <typename Transfer>
bool for_each_block(Arena& buffers, const Transfer& transfer) {
  std::atomic<Bytes> next = 0;
  std::atomic<bool> good = true;
  std::vector<std::jthread> threads;
  threads.reserve(kDiskThreads);
  for (int index = 0; index < kDiskThreads; ++index) {
    threads.emplace_back([&, index] {
      std::byte* buffer = buffers.data() + index * kBlock;
      for (Bytes offset = next.fetch_add(kBlock); offset < kFileBytes && good;
           offset = next.fetch_add(kBlock))
        if (transfer(buffer, offset) != kBlock) good = false;
    });
  }
  threads.clear();
  return good;
}

void measure_disk(const std::string& folder) {
  const FileDescriptor file = unnamed_file(folder);
  Arena buffers(kDiskThreads * kBlock);
  std::memset(buffers.data(), 1, static_cast<std::size_t>(buffers.size()));
  const auto write = [&] {
    if (!for_each_block(
            buffers,
            [&](std::byte* buffer, Bytes offset) { return ::pwrite(file.get(), buffer, kBlock, offset); }) ||
        ::fsync(file.get()) != 0)
      throw_io_error(folder, "write");
  };
  const auto read = [&] {
    if (!for_each_block(buffers, [&](std::byte* buffer, Bytes offset) {
          return ::pread(file.get(), buffer, kBlock, offset);
        }))
      throw_io_error(folder, "read");
  };
  constexpr int kRepetitions = 3;
  const std::string what =
      fmt::format("O_DIRECT, {} threads, blocks of {}, {}", kDiskThreads, format_bytes(kBlock), folder);
  const auto bytes = static_cast<double>(kFileBytes);
  print("disk_write", "B/s", bytes, repeat(kRepetitions, [&] { return seconds_on_host(write); }),
        what + ", fsync included");
  print("disk_read", "B/s", bytes, repeat(kRepetitions, [&] { return seconds_on_host(read); }), what);
}

void measure_all(const std::string& folder) {
  const std::unique_ptr<Device> device = bench::make_device_from_environment();
  const Effort& effort = device->host_addressable() ? kCpuEffort : kGpuEffort;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) measure_products(*device, effort, dtype);
  measure_device_copy(*device, effort);
  measure_link(*device, effort);
  const int threads = bench::threads_from_environment();
  measure_host_memory(threads > 0 ? threads : usable_cores(), effort.repetitions);
  if (!folder.empty()) measure_disk(folder);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) try {
  strata::measure_all(argc > 1 ? argv[1] : "");
} catch (const std::exception& error) {
  std::cerr << "bench_ceilings: " << error.what() << '\n';
  return 1;
}
