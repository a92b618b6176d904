// What the instructions of a program compute, by Instruction::work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/nth.h"
#include "engine/device/kernel_work.h"

namespace strata {

/// Many instructions, and copies of a program, share one Work.
class Works {
 public:
  /// Its number. REQUIRES: equal work comes in the same place.
  std::int32_t add(std::shared_ptr<const Work> work) {
    const auto found = std::ranges::find(works_, work);
    const auto number = static_cast<std::int32_t>(found - works_.begin());
    if (found == works_.end()) works_.push_back(std::move(work));
    return number;
  }

  std::size_t size() const { return works_.size(); }
  const std::shared_ptr<const Work>& operator[](std::int32_t number) const { return nth(works_, number); }
  friend bool operator==(const Works& a, const Works& b) {
    return std::ranges::equal(a.works_, b.works_,
                              [](const auto& one, const auto& other) { return *one == *other; });
  }

 private:
  std::vector<std::shared_ptr<const Work>> works_;
};

}  // namespace strata
