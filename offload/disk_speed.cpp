#include "offload/disk_speed.h"

#include <array>
#include <chrono>
#include <cstring>

#include "base/arena.h"
#include "base/error.h"
#include "offload/transfer.h"

namespace strata {
namespace {

/// Bytes per second.
double speed_of(Transfer& transfer, const TransferRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  if (const std::string error = transfer.run(request); !error.empty()) throw IoError(error);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(request.length) / seconds.count();
}

}  // namespace

DiskSpeed measure_disk_speed(const SpillFolder& folder, BlockEngine& engine, Bytes bytes) {
  StoreFiles files{.files = {}, .map = StripeMap(bytes, std::array{1.0})};
  files.files.push_back(folder.make_file("speed", bytes));
  files.shares.emplace_back(DiskSpeed{});
  const Arena memory(bytes);
  std::memset(memory.data(), 1,
              static_cast<std::size_t>(bytes));  // untouched pages would all be the one of zeros
  Transfer transfer(files, engine);
  const TransferRequest write = {Direction::write, 0, memory.data(), bytes};
  const TransferRequest read = {Direction::read, 0, memory.data(), bytes};
  // The first write also finds room for the file's blocks, once in a run.
  speed_of(transfer, write);
  return {.read = speed_of(transfer, read), .write = speed_of(transfer, write)};
}

double round_trip_speed(const DiskSpeed& speed) {
  return 1 / (1 / speed.read + 1 / speed.write);
}

}  // namespace strata
