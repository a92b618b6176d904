#include "offload/disk_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/arena.h"
#include "base/error.h"
#include "base/nth.h"
#include "base/watchdog.h"
#include "offload/spill_folder.h"
#include "offload/thread_engine.h"
#include "offload/uring_engine.h"

namespace strata {
namespace {

/// Moves the whole file once; bytes per second.
double speed_of(const SpillFile& file, Bytes bytes, BlockEngine& engine, Direction direction, Bytes block,
                int depth, std::byte* memory) {
  auto results = sized<std::vector<BlockResult>>(depth);
  Bytes next = 0;
  const auto start = [&](int slot) {
    engine.start(slot, {direction, file.descriptor.get(), next, memory + slot * block, block});
    next += block;
  };
  WatchedWait wait([&file] { return "measuring " + file.path; });
  const auto begun = std::chrono::steady_clock::now();
  int in_flight = 0;
  for (; in_flight < depth && next + block <= bytes; ++in_flight) start(in_flight);
  while (in_flight > 0) {
    const std::size_t count = engine.reap(results);
    wait.advance();
    for (const BlockResult& result : std::span(results).first(count)) {
      if (result.result != block) {
        throw IoError(fmt::format("cannot measure {}: {}", file.path,
                                  result.result < 0
                                      ? std::generic_category().message(static_cast<int>(-result.result))
                                      : "an operation moved less than it was asked to"));
      }
      --in_flight;
      if (next + block > bytes) continue;
      start(result.slot);
      ++in_flight;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  return static_cast<double>(next) / seconds.count();
}

}  // namespace

std::vector<CurvePoint> measure_disk_curve(const std::string& folder, Bytes bytes,
                                           const std::vector<Bytes>& blocks, const std::vector<int>& depths) {
  const SpillFolder spill(folder, nullptr);
  const SpillFile file = spill.make_file("curve", bytes);
  const int most = *std::max_element(depths.begin(), depths.end());
  const Arena memory(most * *std::max_element(blocks.begin(), blocks.end()));
  std::ranges::fill(memory.memory(), std::byte{1});
  const std::unique_ptr<BlockEngine> engine =
      uring_error(nullptr) == 0 ? make_uring_engine(most) : make_thread_engine(most);
  const auto speed = [&](Direction direction, Bytes block, int depth) {
    return speed_of(file, bytes, *engine, direction, block, depth, memory.data());
  };
  speed(Direction::write, blocks.back(), most);  // also finds room for the file's blocks, once
  std::vector<CurvePoint> curve;
  for (const Bytes block : blocks) {
    for (const int depth : depths) {
      curve.push_back(
          {block,
           depth,
           {.read = speed(Direction::read, block, depth), .write = speed(Direction::write, block, depth)}});
    }
  }
  return curve;
}

std::string why_no_io_uring() {
  const int error = uring_error(nullptr);
  return error == 0 ? "" : explain_uring_error(error);
}

}  // namespace strata
