// Not in a unity build: GCC takes its class for one of a header.
#include "tests/support/queued_device.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "engine/device/kernel_calls.h"

namespace strata::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Counts records: the latest issued and the latest performed.
class Tickets {
 public:
  std::int64_t issue() {
    const std::lock_guard lock(mutex_);
    return ++issued_;
  }
  std::int64_t issued() const {
    const std::lock_guard lock(mutex_);
    return issued_;
  }
  void perform(std::int64_t ticket, bool failed) {
    const std::lock_guard lock(mutex_);
    performed_ = ticket;
    failed_ = failed_ || failed;
    time_ = Clock::now();
    changed_.notify_all();
  }
  void wait_until_performed(std::int64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return performed_ >= ticket; });
  }
  bool wait(double seconds) {
    std::unique_lock lock(mutex_);
    const bool done = changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                                        [&] { return performed_ >= issued_; });
    if (failed_) throw DeviceError("the device failed");
    return done;
  }
  Clock::time_point time() const {
    const std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t issued_ = 0, performed_ = 0;
  bool failed_ = false;
  Clock::time_point time_;
};

/// May end before what was issued with it, as CUDA's events may.
struct QueuedEvent final : Event {
  bool wait(double seconds) override { return tickets->wait(seconds); }
  double seconds_since(const Event& start) const override {
    return std::chrono::duration<double>(tickets->time() -
                                         static_cast<const QueuedEvent&>(start).tickets->time())
        .count();
  }
  std::shared_ptr<Tickets> tickets = std::make_shared<Tickets>();
};

class Queue {
 public:
  Queue() : thread_([this] { work(); }) {}
  ~Queue() {
    add(nullptr);
    thread_.join();
  }

  void add(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

/// Keeps each call and performs it later.
class QueuedKernels final : public Kernels {
 public:
  QueuedKernels(Queue& queue, Kernels& kernels, const std::atomic<bool>& hanging)
      : queue_(queue), kernels_(kernels), hanging_(hanging) {}

  void reserve_scratch(const ScratchBytes& largest) override { kernels_.reserve_scratch(largest); }
  Bytes scratch_bytes() const override { return kernels_.scratch_bytes(); }
  void run(const KernelCall& call) override {
    call.visit([this](const auto& own) {
      queue_.add([this, own] {
        if (!hanging_) kernels_.run(own);
      });
    });
  }

 private:
  Queue& queue_;
  Kernels& kernels_;
  const std::atomic<bool>& hanging_;
};

}  // namespace

class QueuedStream final : public Stream {
 public:
  QueuedStream(QueuedDevice& device, std::unique_ptr<Stream> cpu)
      : device_(device), cpu_(std::move(cpu)), kernels_(queue_, cpu_->kernels(), device.hanging_) {}

  void add(std::function<void()> work) {
    queue_.add([work = std::move(work), this] {
      if (!device_.hanging_) work();
    });
  }

  Kernels& kernels() override { return kernels_; }
  void copy_to_device(std::byte* to, const std::byte* from, Bytes bytes) override {
    queue_.add([=, this] {
      if (!device_.hanging_) cpu_->copy_to_device(to, from, bytes);
    });
  }
  void copy_to_host(std::byte* to, const std::byte* from, Bytes bytes) override {
    queue_.add([=, this] {
      if (!device_.hanging_) cpu_->copy_to_host(to, from, bytes);
    });
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<QueuedEvent>(); }
  void record(Event& event) override {
    const std::shared_ptr<Tickets> tickets = static_cast<QueuedEvent&>(event).tickets;
    const std::int64_t ticket = tickets->issue();
    if (device_.hanging_) return;
    queue_.add([tickets, ticket, failed = device_.failing_.load()] { tickets->perform(ticket, failed); });
  }
  void wait(const Event& event) override {
    const std::shared_ptr<Tickets> tickets = static_cast<const QueuedEvent&>(event).tickets;
    if (device_.hanging_) return;
    queue_.add([tickets, ticket = tickets->issued()] { tickets->wait_until_performed(ticket); });
  }

 private:
  QueuedDevice& device_;
  std::unique_ptr<Stream> cpu_;
  Queue queue_;
  QueuedKernels kernels_;
};

std::unique_ptr<Stream> QueuedDevice::make_stream() {
  return std::make_unique<QueuedStream>(*this, cpu_.make_stream());
}

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  if (std::getenv("STRATA_QUEUED_DEVICE") != nullptr) return std::make_unique<QueuedDevice>(options);
  return std::make_unique<CpuDevice>(options);
}

void add_work(Stream& stream, std::function<void()> work) {
  static_cast<QueuedStream&>(stream).add(std::move(work));
}

}  // namespace strata::test
