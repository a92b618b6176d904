// What the NVMe store moves, for bench/nvme.sh to hold against fio. Prints a JSON object.
//   build/bench/bench_nvme read|write|mixed FOLDER[,FOLDER...] [SECONDS] [TRANSFER_MIB] [io_uring|threads]
//   [verify]
// The store has 2 GiB and was written once before anything is timed. `mixed` reads one half and writes the
// other, each through a queue of its own. CPU time is the whole program's: the system's part of the transfers
// too, but for what interrupts do.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/error.h"
#include "offload/store.h"

namespace strata {
namespace {

constexpr Bytes kStoreBytes = 2 * GiB;

struct Options {
  std::string mode, folders;
  double seconds = 3;
  Bytes transfer = 256 * MiB;
  std::string engine = "io_uring";
  bool verify = false;
};

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Part of the store, and a lane's own way to it and memory for it.
class Lane {
 public:
  Lane(Store& store, Bytes first, Bytes end, Bytes transfer)
      : queue_(store.open_queue()), first_(first), end_(end), memory_(transfer) {
    std::memset(memory_.data(), 1, static_cast<std::size_t>(transfer));
  }
  void write_all() {
    for (Bytes offset = first_; offset < end_; offset += memory_.size()) queue_->write(offset, memory());
  }
  /// Bytes moved by transfers one after the other until then.
  Bytes run(bool write, Clock::time_point until) {
    Bytes moved = 0;
    for (Bytes offset = first_; Clock::now() < until; moved += memory_.size()) {
      if (write)
        queue_->write(offset, memory());
      else
        queue_->read(offset, memory());
      offset += memory_.size();
      if (offset == end_) offset = first_;
    }
    return moved;
  }

 private:
  std::span<std::byte> memory() const { return {memory_.data(), static_cast<std::size_t>(memory_.size())}; }

  std::unique_ptr<StoreQueue> queue_;
  Bytes first_, end_;
  Arena memory_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

void measure(const Options& options) {
  const auto store =
      open_store({.folders = split(options.folders),
                  .bytes = kStoreBytes,
                  .engine = options.engine == "threads" ? StoreEngine::threads : StoreEngine::io_uring,
                  .verify = options.verify});
  const bool mixed = options.mode == "mixed";
  const Bytes middle = mixed ? kStoreBytes / 2 : kStoreBytes;
  Lane first(*store, 0, middle, options.transfer);
  first.write_all();
  Bytes read = 0, written = 0;
  const auto time = [&](const auto& transfers) {
    const double cpu = cpu_seconds();
    const Clock::time_point start = Clock::now();
    transfers(start +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds)));
    const std::chrono::duration<double> seconds = Clock::now() - start;
    const double bytes = static_cast<double>(read + written);
    fmt::print(
        "{{\"figure\": \"nvme_{}\", \"bytes_per_second\": {:.6g}, \"read\": {:.6g}, \"written\": {:.6g}, "
        "\"cpu_share\": {:.4f}, \"transfer_bytes\": {}, \"store\": \"{}\"}}\n",
        options.mode, bytes / seconds.count(), static_cast<double>(read) / seconds.count(),
        static_cast<double>(written) / seconds.count(), (cpu_seconds() - cpu) / seconds.count(),
        options.transfer, store->describe());
  };
  if (!mixed) {
    const bool write = options.mode == "write";
    time([&](Clock::time_point until) { (write ? written : read) = first.run(write, until); });
    return;
  }
  Lane second(*store, middle, kStoreBytes, options.transfer);
  second.write_all();
  time([&](Clock::time_point until) {
    std::jthread writer([&] { written = second.run(true, until); });
    read = first.run(false, until);
  });
}

Options parse(const std::vector<std::string>& arguments) {
  const auto at = [&](std::size_t index, const char* otherwise) {
    return index < arguments.size() ? arguments[index] : std::string(otherwise);
  };
  Options options{.mode = at(0, ""), .folders = at(1, "")};
  options.seconds = std::stod(at(2, "3"));
  options.transfer = std::stoll(at(3, "256")) * MiB;
  options.engine = at(4, "io_uring");
  options.verify = at(5, "") == "verify";
  const bool known = options.mode == "read" || options.mode == "write" || options.mode == "mixed";
  if (!known || options.folders.empty() || options.transfer <= 0 || kStoreBytes / 2 % options.transfer != 0) {
    throw ConfigError(
        "usage: bench_nvme read|write|mixed FOLDER[,FOLDER...] [SECONDS] [TRANSFER_MIB] [io_uring|threads] "
        "[verify]; TRANSFER_MIB divides 1024");
  }
  return options;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) try {
  strata::measure(strata::parse({argv + 1, argv + argc}));
} catch (const std::exception& error) {
  std::cerr << "bench_nvme: " << error.what() << '\n';
  return 1;
}
