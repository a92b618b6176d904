// The NVMe tier: spill files that hold what neither device nor host memory does. A store is one range of
// bytes [0, bytes()), striped over a file in each of its folders. The files are scratch: they belong to the
// run that made them and go with it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace strata {

class IoFaults;

/// Offsets, sizes and addresses of all transfers are multiples of this.
constexpr Bytes kStoreAlignment = 4096;

enum class StoreEngine { automatic, io_uring, threads };

/// Bytes per second of either direction alone; nothing: as fast as it goes. The directions share the time:
/// bytes read / read + bytes written / write is at most the seconds that have passed.
struct StoreLimit {
  std::optional<double> read, write;
};

/// Which of a run's ranks a store belongs to. Ranks may share folders; each has files of its own there.
struct RankOfRun {
  int rank = 0, ranks = 1;
};

struct StoreOptions {
  std::vector<std::string> folders;
  RankOfRun rank = {};
  Bytes bytes = 0;
  /// automatic: io_uring, or a pool of threads with pread and pwrite if the system forbids it.
  StoreEngine engine = StoreEngine::automatic;
  /// Keeps a checksum of everything that is written, and checks what is read against it. Then a read must
  /// have the offset and size of a write before it.
  bool verify = false;
  StoreLimit limit = {};
  IoFaults* faults = nullptr;  ///< tests only
};

/// What a queue has moved, counted as the drives' results come in.
struct StoreCount {
  Bytes read = 0, written = 0;
  Bytes end = 0;  ///< of the highest byte that was read or written, in the store
};

/// One lane's way to the store. Used by one thread at a time. A transfer waits for its drive without limit,
/// and so does the queue's destructor: the drive owns the memory meanwhile. A Watchdog
/// (base/watchdog.h) tells of one that does not advance.
class StoreQueue {
 public:
  virtual ~StoreQueue() = default;

  /// Both return when all bytes are there. They throw IoError, which names the file, offset, length and
  /// reason. Nothing is allocated.
  virtual void read(Bytes offset, std::span<std::byte> to) = 0;
  virtual void write(Bytes offset, std::span<const std::byte> from) = 0;

  /// What was moved since the call before.
  virtual StoreCount take_count() = 0;
};

/// Any thread may call.
class Store {
 public:
  /// Waits for the transfers in flight. Queues that are left refuse all others with IoError.
  virtual ~Store() = default;

  virtual Bytes bytes() const = 0;
  virtual std::unique_ptr<StoreQueue> open_queue() = 0;
  /// One line for a person: the engine, the folders and how they share the work.
  virtual std::string describe() const = 0;
};

/// Locks the folders, removes what dead runs left in them, and gives the files their size. Throws ConfigError
/// if a folder is in use (naming the process), is missing, cannot do O_DIRECT, or has not enough free
/// space (naming needed and free bytes).
std::unique_ptr<Store> open_store(const StoreOptions& options);

}  // namespace strata
