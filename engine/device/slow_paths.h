// Ways that work on a device but more slowly than they could. The code that takes one says so, once. A run
// warns of it, and its report lists it. Any thread may call.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace strata {

class SlowPaths {
 public:
  /// What is slow, why, and what to do about it. Said before: nothing.
  void add(std::string sentence) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(sentences_, sentence) == sentences_.end())
      sentences_.push_back(std::move(sentence));
  }
  /// In the order in which they were met.
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return sentences_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> sentences_;
};

}  // namespace strata
