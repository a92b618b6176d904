// What a rendering may take. A template comes from anybody, so whatever grows is counted before it does. Used
// by one thread.
#pragma once

#include <cstdint>

namespace strata::chat {

/// Far more than any conversation needs.
struct Limits {
  std::int64_t steps = 50'000'000;  ///< expressions and statements, and values that are walked over
  std::int64_t bytes = std::int64_t{1} << 30;  ///< of all texts and lists that are made, together
  int depth = 400;                             ///< of expressions, statements and calls in one another
};

class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits) {}

  /// The following throw Problem beyond the limits.
  void count_steps(std::int64_t steps) {
    if (steps > limits_.steps - steps_) refuse_steps();
    steps_ += steps;
  }
  void count_bytes(std::int64_t bytes) {
    if (bytes > limits_.bytes - bytes_) refuse_bytes();
    bytes_ += bytes;
  }
  /// For `count` times `bytes`, whose product may be beyond all numbers.
  void count_bytes(std::int64_t count, std::int64_t bytes);

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
  [[noreturn]] void refuse_steps() const;
  [[noreturn]] void refuse_bytes() const;
  [[noreturn]] void refuse_depth();

  Limits limits_;
  std::int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

}  // namespace strata::chat
