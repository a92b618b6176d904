// NCCL and the few functions of the CUDA runtime that its tests call, for ranks that are threads of one
// process and a GPU whose memory is the host's. A program that has these sources needs no libnccl:
// nccl_library() is theirs. README.md says what is modelled.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

/// A GPU that has room for one exchange between ranks: it does them one after another, in the order in which
/// they were issued, whatever their streams. The worst that a GPU may do: NCCL's kernels wait for those of
/// other ranks, and nothing promises that two of one GPU run side by side.
class OneExchangeAtATime {
 public:
  std::int64_t issue() {
    const std::lock_guard lock(mutex_);
    return issued_++;
  }
  /// Does the `number`-th that was issued. It must not throw.
  void perform(std::int64_t number, const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == number; });
    lock.unlock();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t issued_ = 0, done_ = 0;
};

/// What a cudaStream_t points to: does work in the order in which it is added, now or later.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  virtual void add(std::function<void()> work) = 0;

  /// Those of the stream's GPU.
  std::shared_ptr<OneExchangeAtATime> exchanges = std::make_shared<OneExchangeAtATime>();
};
