// What a cudaStream_t points to where no GPU is: the emulated runtime (tests/gpu_emulation), a test's own
// device, and the emulations of NCCL and of kernels put their work into it.
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

/// Does work in the order in which it is added, now or later.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  virtual void add(std::function<void()> work) = 0;
  /// False: what kernels and products would compute is left out.
  virtual bool computes() const { return true; }

  /// Those of the stream's GPU.
  std::shared_ptr<OneExchangeAtATime> exchanges = std::make_shared<OneExchangeAtATime>();
};
