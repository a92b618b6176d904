// What a rendering may take. A template comes from anybody, so whatever grows is counted before it does, and
// whatever is read is counted as it is read. Values count themselves by the meter in use on their thread:
// each text as it is read, and each text, list and dict as it is made. So no operation can leave that out.
// Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::chat {

/// Far more than any conversation needs.
struct Limits {
  std::int64_t steps =
      50'000'000;  ///< expressions, statements, values that are walked over, texts that are read
  std::int64_t bytes = std::int64_t{1} << 30;  ///< of all texts, lists and dicts that are made, together
  int depth = 400;                             ///< of expressions, statements and calls in one another
};

class Meter {
 public:
  /// About what a text or a list takes besides what is in it.
  static constexpr std::int64_t kValueBytes = 64;

  explicit Meter(const Limits& limits) : limits_(limits) {}

  /// The following throw Problem beyond the limits.
  void count_steps(std::int64_t steps) {
    if (steps > limits_.steps - steps_) refuse_steps();
    steps_ += steps;
  }
  void count_bytes(std::int64_t bytes) {
    check_bytes(bytes);
    bytes_ += bytes;
  }
  /// Asks before bytes are made; they are counted when a value is made of them.
  void check_bytes(std::int64_t bytes) const {
    if (bytes > limits_.bytes - bytes_) refuse_bytes();
  }
  /// For `count` times `bytes`, whose product may be beyond all numbers.
  void check_bytes(std::int64_t count, std::int64_t bytes) const;

  /// Makes a meter the one of this thread, for as long as this lives.
  class Use {
   public:
    explicit Use(Meter& meter) : before_(current_) { current_ = &meter; }
    ~Use() { current_ = before_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Meter* before_;
  };

  /// The following count by the meter of this thread. They do nothing where none is in use, as while a
  /// template is parsed.
  static void count_read(std::size_t bytes) {
    if (current_ != nullptr) current_->count_steps(1 + static_cast<std::int64_t>(bytes / kBytesInAStep));
  }
  static void count_made(std::size_t bytes) {
    if (current_ != nullptr) current_->count_bytes(kValueBytes + static_cast<std::int64_t>(bytes));
  }
  /// A search for a name among `entries`, one after the other.
  static void count_search(std::size_t entries) {
    if (current_ != nullptr) current_->count_steps(static_cast<std::int64_t>(entries / kEntriesInAStep));
  }

  /// One more level of recursion, for as long as this lives.
  class Level {
   public:
    explicit Level(Meter& meter) : meter_(meter) {
      if (++meter_.depth_ > meter_.limits_.depth) meter_.refuse_depth();
    }
    ~Level() { --meter_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Meter& meter_;
  };

 private:
  static constexpr std::size_t kBytesInAStep = 64, kEntriesInAStep = 8;

  [[noreturn]] void refuse_steps() const;
  [[noreturn]] void refuse_bytes() const;
  [[noreturn]] void refuse_depth();

  static constinit inline thread_local Meter* current_ = nullptr;

  Limits limits_;
  std::int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

}  // namespace strata::chat
