#include "offload/store_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace strata {
namespace {

void check(const TransferRequest& request, Bytes store_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(request.memory);
  if (request.offset % kStoreAlignment != 0 || request.length % kStoreAlignment != 0 ||
      address % kStoreAlignment != 0 || request.offset < 0 || request.offset + request.length > store_bytes) {
    throw std::logic_error(
        fmt::format("a transfer of {} bytes at offset {} with memory at {:#x} in a store of {} bytes",
                    request.length, request.offset, address, store_bytes));
  }
}

std::string describe(const TransferRequest& request) {
  return fmt::format("{} {} bytes at offset {} of the NVMe store",
                     request.direction == Direction::read ? "reading" : "writing", request.length,
                     request.offset);
}

}  // namespace

ThreadedQueue::ThreadedQueue(std::shared_ptr<StoreState> state)
    : state_(std::move(state)), thread_([this] { serve(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return phase_ != Phase::starting; });
  if (error_.empty()) return;
  lock.unlock();
  thread_.join();
  throw IoError(error_);
}

ThreadedQueue::~ThreadedQueue() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return phase_ == Phase::idle; });
    phase_ = Phase::closing;
  }
  changed_.notify_all();
  thread_.join();
}

void ThreadedQueue::read(Bytes offset, std::span<std::byte> to) {
  run({Direction::read, offset, to.data(), std::ssize(to)});
}

void ThreadedQueue::write(Bytes offset, std::span<const std::byte> from) {
  // A write only reads this memory; engines have one kind of operation.
  run({Direction::write, offset, const_cast<std::byte*>(from.data()), std::ssize(from)});
}

StoreCount ThreadedQueue::take_count() {
  const std::lock_guard lock(mutex_);
  return std::exchange(count_, {});
}

void ThreadedQueue::run(const TransferRequest& request) {
  check(request, state_->files.map.bytes());
  if (request.length == 0) return;
  std::unique_lock lock(mutex_);
  if (broken_) throw IoError(describe(request) + " is not tried: the engine failed at a transfer before it");
  if (!state_->gate.enter()) throw IoError(describe(request) + " is not possible: the store is closed");
  request_ = request;
  phase_ = Phase::requested;
  changed_.notify_all();
  changed_.wait(lock, [this] { return phase_ == Phase::idle; });
  if (!error_.empty()) throw IoError(error_);
}

void ThreadedQueue::serve() {
  std::unique_ptr<BlockEngine> engine;
  std::string error;
  try {
    engine = state_->make_engine(transfer_slots(state_->files.map.files()));
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  std::optional<Transfer> transfer;
  if (engine) transfer.emplace(state_->files, *engine);

  std::unique_lock lock(mutex_);
  error_ = error;
  phase_ = Phase::idle;
  changed_.notify_all();
  while (transfer) {
    changed_.wait(lock, [this] { return phase_ == Phase::requested || phase_ == Phase::closing; });
    if (phase_ == Phase::closing) return;
    phase_ = Phase::running;
    const TransferRequest request = request_;
    lock.unlock();
    bool usable = true;
    try {
      error = transfer->run(request);
    } catch (const std::exception& failure) {
      error = failure.what();
      usable = false;  // the engine itself failed, and what is in flight is unknown
    }
    state_->gate.leave();
    lock.lock();
    (request.direction == Direction::read ? count_.read : count_.written) += transfer->moved();
    count_.end = std::max(count_.end, transfer->moved_end());
    broken_ |= !usable;
    error_ = std::move(error);
    phase_ = Phase::idle;
    changed_.notify_all();
  }
}

}  // namespace strata
