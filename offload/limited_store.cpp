#include "offload/limited_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace strata {
namespace {

using Seconds = PacingClock::Seconds;

/// Gives out a drive's time. Any thread may call.
class Pace {
 public:
  Pace(const StoreLimit& limit, PacingClock clock) : limit_(limit), clock_(std::move(clock)) {}

  /// When a transfer that starts now ends, after all that were promised before it.
  Seconds end_of_read(Bytes bytes) { return promise(bytes, limit_.read); }
  Seconds end_of_write(Bytes bytes) { return promise(bytes, limit_.write); }
  void sleep_until(Seconds time) const { clock_.sleep_until(time); }

  std::string describe() const {
    const auto part = [](const char* direction, std::optional<double> rate) {
      return rate
                 ? fmt::format("; {} no faster than {}/s", direction, format_bytes(static_cast<Bytes>(*rate)))
                 : std::string();
    };
    return part("reads", limit_.read) + part("writes", limit_.write);
  }

 private:
  Seconds promise(Bytes bytes, std::optional<double> rate) {
    const std::lock_guard lock(mutex_);
    const Seconds now = clock_.now();
    if (!rate) return now;
    promised_ = std::max(promised_, now) + Seconds(static_cast<double>(bytes) / *rate);
    return promised_;
  }

  StoreLimit limit_;
  PacingClock clock_;
  std::mutex mutex_;
  Seconds promised_{0};
};

class LimitedQueue final : public StoreQueue {
 public:
  LimitedQueue(std::unique_ptr<StoreQueue> queue, std::shared_ptr<Pace> pace)
      : queue_(std::move(queue)), pace_(std::move(pace)) {}

  void read(Bytes offset, std::span<std::byte> to) override {
    const Seconds end = pace_->end_of_read(std::ssize(to));
    queue_->read(offset, to);
    pace_->sleep_until(end);
  }

  void write(Bytes offset, std::span<const std::byte> from) override {
    const Seconds end = pace_->end_of_write(std::ssize(from));
    queue_->write(offset, from);
    pace_->sleep_until(end);
  }

  StoreCount take_count() override { return queue_->take_count(); }

 private:
  std::unique_ptr<StoreQueue> queue_;
  std::shared_ptr<Pace> pace_;
};

class LimitedStore final : public Store {
 public:
  LimitedStore(std::unique_ptr<Store> store, std::shared_ptr<Pace> pace)
      : store_(std::move(store)), pace_(std::move(pace)) {}

  Bytes bytes() const override { return store_->bytes(); }
  std::unique_ptr<StoreQueue> open_queue() override {
    return std::make_unique<LimitedQueue>(store_->open_queue(), pace_);
  }
  std::string describe() const override { return store_->describe() + pace_->describe(); }

 private:
  std::unique_ptr<Store> store_;
  std::shared_ptr<Pace> pace_;
};

}  // namespace

std::unique_ptr<Store> limit_store(std::unique_ptr<Store> store, const StoreLimit& limit, PacingClock clock) {
  return std::make_unique<LimitedStore>(std::move(store), std::make_shared<Pace>(limit, std::move(clock)));
}

}  // namespace strata
