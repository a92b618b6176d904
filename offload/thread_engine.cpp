#include "offload/thread_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/nth.h"

namespace strata {
namespace {

/// More threads than this wait for one another, not for disks.
constexpr int kMostThreads = 16;

class ThreadEngine final : public BlockEngine {
 public:
  explicit ThreadEngine(int slots) : operations_(static_cast<std::size_t>(slots)) {
    waiting_.reserve(operations_.size());
    results_.reserve(operations_.size());
    for (int i = 0; i < std::min(slots, kMostThreads); ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  void start(int slot, const BlockOperation& operation) override {
    {
      const std::lock_guard lock(mutex_);
      nth(operations_, slot) = operation;
      waiting_.push_back(slot);
    }
    work_there_.notify_one();
  }
  void submit() override {}
  std::size_t reap(std::span<BlockResult> results) override {
    std::unique_lock lock(mutex_);
    result_there_.wait(lock, [this] { return !results_.empty(); });
    const std::size_t count = results_.size();
    std::copy(results_.begin(), results_.end(), results.begin());
    results_.clear();
    return count;
  }

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any work_there_;
  std::condition_variable result_there_;
  std::vector<BlockOperation> operations_;  ///< by slot
  std::vector<int> waiting_;                ///< slots, in the order in which they were started
  std::vector<BlockResult> results_;
  std::vector<std::jthread> threads_;  ///< last: they are stopped before what they use goes
};

std::int64_t carry_out(const BlockOperation& operation) {
  const auto length = static_cast<std::size_t>(operation.length);
  const ssize_t result = operation.direction == Direction::read
                             ? ::pread(operation.descriptor, operation.memory, length, operation.offset)
                             : ::pwrite(operation.descriptor, operation.memory, length, operation.offset);
  return result < 0 ? -errno : result;
}

void ThreadEngine::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_there_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
    const int slot = waiting_.front();
    waiting_.erase(waiting_.begin());
    const BlockOperation operation = nth(operations_, slot);
    lock.unlock();
    const std::int64_t result = carry_out(operation);
    lock.lock();
    results_.push_back({slot, result});
    result_there_.notify_one();
  }
}

}  // namespace

std::unique_ptr<BlockEngine> make_thread_engine(int slots) {
  return std::make_unique<ThreadEngine>(slots);
}

}  // namespace strata
