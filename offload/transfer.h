// One transfer at a time between memory and a store's files: cut into blocks that are in flight on all files
// at once, with everything that an engine's results have to be checked for.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/watchdog.h"
#include "offload/block_engine.h"
#include "offload/io_faults.h"
#include "offload/store_files.h"

namespace strata {

struct TransferRequest {
  Direction direction = Direction::read;
  Bytes offset = 0;  ///< in the store
  std::byte* memory = nullptr;
  Bytes length = 0;
};

/// Blocks that a transfer over `files` files has in flight at most: the slots that its engine needs.
int transfer_slots(int files);

/// Used by the engine's thread. Allocates only when it is made or fails.
class Transfer {
 public:
  Transfer(StoreFiles& files, BlockEngine& engine);

  /// Returns when nothing is in flight any more: empty, or a sentence on what failed first. Noted as a
  /// WatchedWait, which advances with every block.
  std::string run(const TransferRequest& request);

  /// Bytes that the latest run moved, as the engine's results say, and where in the store the last of them
  /// lies. What is moved again since an operation fell short counts once.
  Bytes moved() const { return moved_; }
  Bytes moved_end() const { return moved_end_; }

 private:
  struct Slot {
    StripePiece piece = {};
    std::byte* memory = nullptr;
    Bytes done = 0;  ///< of the piece; a multiple of kStoreAlignment
    int attempts = 0;
    BlockFault fault = {};
    Bytes asked = 0;  ///< of the engine, by the attempt in flight
  };
  /// A file's part of the transfer.
  struct Lane {
    Bytes next = 0;  ///< in the store; the request's end if nothing is left
    Bytes in_flight = 0;
  };
  struct Finished {
    Bytes offset;
    std::span<std::byte> memory;
  };
  enum class Outcome { ended, to_be_continued };

  void count(const Slot& slot, Bytes before);
  /// From any thread: the block that waits for its disk.
  std::string describe() const;
  bool stopped() const { return !error_.empty(); }
  Bytes end() const { return request_.offset + request_.length; }
  void fill();
  void start(int index);
  Outcome settle(Slot& slot, std::int64_t result);
  Outcome retry(Slot& slot);
  void release(int index);
  void check_finished();
  void fail(const Slot& slot, const std::string& reason);
  void fail_mismatch(const PageChecksums::Mismatch& mismatch);
  int in_flight() const { return static_cast<int>(slots_.size() - free_.size()); }

  StoreFiles& files_;
  BlockEngine& engine_;
  TransferRequest request_;
  Bytes moved_ = 0, moved_end_ = 0;
  std::vector<Slot> slots_;
  std::vector<int> free_;
  std::vector<Lane> lanes_;  ///< of each file
  std::vector<BlockResult> results_;
  std::vector<Finished> finished_;  ///< whose checksums are still to be seen to
  std::string error_;
  WatchedWait* wait_ = nullptr;  ///< of run()
  std::vector<std::atomic<Bytes>>
      waiting_;  ///< by slot: the offset in the store that is in flight, or kNothing
};

}  // namespace strata
