// A queue of a store: one thread that owns an engine and runs what other threads hand over. Lanes' threads
// come and go between runs, and a ring must be used by the thread that made it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "offload/block_engine.h"
#include "offload/gate.h"
#include "offload/store.h"
#include "offload/store_files.h"
#include "offload/transfer.h"

namespace strata {

/// What a store and its queues have in common. A store that is closed leaves its queues this, and an open
/// file to none.
struct StoreState {
  explicit StoreState(StripeMap map) : files{.files = {}, .map = std::move(map)} {}

  StoreFiles files;
  Gate gate;
  std::function<std::unique_ptr<BlockEngine>(int slots)> make_engine;
};

class ThreadedQueue final : public StoreQueue {
 public:
  /// Throws IoError if the engine cannot be made.
  explicit ThreadedQueue(std::shared_ptr<StoreState> state);
  /// Returns when nothing is in flight.
  ~ThreadedQueue() override;
  ThreadedQueue(const ThreadedQueue&) = delete;
  ThreadedQueue& operator=(const ThreadedQueue&) = delete;

  void read(Bytes offset, std::span<std::byte> to) override;
  void write(Bytes offset, std::span<const std::byte> from) override;
  StoreCount take_count() override;

 private:
  enum class Phase { starting, idle, requested, running, closing };

  void run(const TransferRequest& request);
  void serve();

  std::shared_ptr<StoreState> state_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::starting;
  TransferRequest request_;
  StoreCount count_;
  std::string error_;    ///< of the last transfer, or of making the engine; empty: none
  bool broken_ = false;  ///< the engine is of no use any more
  std::thread thread_;
};

}  // namespace strata
