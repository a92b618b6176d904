#include "offload/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/arena.h"
#include "base/dirty_memory.h"
#include "base/error.h"
#include "offload/disk_speed.h"
#include "offload/limited_store.h"
#include "offload/spill_folder.h"
#include "offload/store_queue.h"
#include "offload/thread_engine.h"
#include "offload/uring_engine.h"

namespace strata {
namespace {

using MakeEngine = std::unique_ptr<BlockEngine> (*)(int slots);
using Folders = std::vector<std::unique_ptr<SpillFolder>>;

struct EngineChoice {
  MakeEngine make;
  std::string description;
};

EngineChoice choose_engine(const StoreOptions& options) {
  if (options.engine == StoreEngine::threads) return {make_thread_engine, "threads with pread and pwrite"};
  const int error = uring_error(options.faults);
  if (error == 0) return {make_uring_engine, "io_uring"};
  const std::string reason = explain_uring_error(error);
  if (options.engine == StoreEngine::io_uring) {
    throw ConfigError(
        fmt::format("io_uring cannot be used here ({}): allow it to this process, or leave the choice of the "
                    "engine to Strata",
                    reason));
  }
  return {make_thread_engine, fmt::format("threads with pread and pwrite (io_uring: {})", reason)};
}

Folders open_folders(const StoreOptions& options) {
  if (options.folders.empty()) throw ConfigError("the NVMe tier has no folder: name one in memory.nvme.path");
  Folders folders;
  for (const std::string& folder : options.folders)
    folders.push_back(std::make_unique<SpillFolder>(folder, options.faults, options.rank));
  return folders;
}

bool on_one_filesystem(const Folders& folders) {
  return std::all_of(folders.begin(), folders.end(), [&](const auto& folder) {
    return folder->filesystem() == folders.front()->filesystem();
  });
}

/// Measures each folder's disk. Folders on one disk are equally fast, and one alone has nobody to share with.
std::vector<DiskSpeed> find_speeds(const Folders& folders, const EngineChoice& engine, Bytes store_bytes) {
  std::vector<DiskSpeed> speeds(folders.size());
  if (on_one_filesystem(folders)) return speeds;
  const Bytes measured = std::clamp(align_up(store_bytes / 16, kStoreBlock), kStoreBlock, 64 * MiB);
  const std::unique_ptr<BlockEngine> one_disk = engine.make(transfer_slots(1));
  for (std::size_t i = 0; i < folders.size(); ++i)
    speeds[i] = measure_disk_speed(*folders[i], *one_disk, measured);
  return speeds;
}

StripeMap share_out(Bytes bytes, const std::vector<DiskSpeed>& speeds) {
  std::vector<double> weights(speeds.size());
  std::transform(speeds.begin(), speeds.end(), weights.begin(), round_trip_speed);
  return {bytes, weights};
}

/// A filesystem reads zeros from what was never written.
void make_dirty(const SpillFile& file, Bytes bytes) {
  if (!memory_is_dirty()) return;
  const Arena dirt(std::min(bytes, 4 * MiB));
  for (Bytes at = 0; at < bytes; at += dirt.size()) {
    const Bytes piece = std::min(dirt.size(), bytes - at);
    if (::pwrite(file.descriptor.get(), dirt.data(), static_cast<std::size_t>(piece), at) != piece)
      throw IoError(fmt::format("{} cannot be filled ({})", file.path, std::strerror(errno)));
  }
}

std::string describe(const EngineChoice& engine, const Folders& folders, const std::vector<DiskSpeed>& speeds,
                     const StoreFiles& files) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const int file = static_cast<int>(i);
    std::string part = fmt::format("{} {}", folders[i]->folder(), format_bytes(files.map.file_bytes(file)));
    if (folders.size() > 1) part += fmt::format(" ({:.0f} %)", 100 * files.map.fraction(file));
    if (!on_one_filesystem(folders))
      part += fmt::format(", read {}/s, write {}/s", format_bytes(static_cast<Bytes>(speeds[i].read)),
                          format_bytes(static_cast<Bytes>(speeds[i].write)));
    parts.push_back(std::move(part));
  }
  return fmt::format("{}{}; {}", engine.description, files.checksums ? ", checksums" : "",
                     fmt::join(parts, "; "));
}

class SpillStore final : public Store {
 public:
  explicit SpillStore(const StoreOptions& options) : folders_(open_folders(options)) {
    const EngineChoice engine = choose_engine(options);
    const Bytes bytes = align_up(options.bytes, kStoreAlignment);
    const std::vector<DiskSpeed> speeds = find_speeds(folders_, engine, bytes);
    state_ = std::make_shared<StoreState>(share_out(bytes, speeds));
    StoreFiles& files = state_->files;
    for (std::size_t i = 0; i < folders_.size(); ++i) {
      files.files.push_back(folders_[i]->make_file("spill", files.map.file_bytes(static_cast<int>(i))));
      make_dirty(files.files.back(), files.map.file_bytes(static_cast<int>(i)));
      files.shares.emplace_back(speeds[i]);
    }
    if (options.verify) files.checksums.emplace(bytes);
    files.faults = options.faults;
    state_->make_engine = engine.make;
    description_ = strata::describe(engine, folders_, speeds, files);
  }
  ~SpillStore() override {
    state_->gate.close();
    state_->files.files.clear();  // queues may live on, the files do not
  }
  SpillStore(const SpillStore&) = delete;
  SpillStore& operator=(const SpillStore&) = delete;

  Bytes bytes() const override { return state_->files.map.bytes(); }
  std::unique_ptr<StoreQueue> open_queue() override { return std::make_unique<ThreadedQueue>(state_); }
  std::string describe() const override { return description_; }

 private:
  Folders folders_;
  std::shared_ptr<StoreState> state_;
  std::string description_;
};

}  // namespace

std::unique_ptr<Store> open_store(const StoreOptions& options) {
  if (options.bytes <= 0)
    throw ConfigError(
        fmt::format("an NVMe tier of {} bytes holds nothing: set memory.nvme.size", options.bytes));
  auto store = std::make_unique<SpillStore>(options);
  if (!options.limit.read && !options.limit.write) return store;
  return limit_store(std::move(store), options.limit);
}

}  // namespace strata
