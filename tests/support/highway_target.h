// Narrows Highway's choice of instruction sets, so that tests reach the code that this processor would not
// choose.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

namespace strata {

/// While it lives, the vector code of this process runs on `target`, one of
/// hwy::SupportedAndGeneratedTargets().
class OnHighwayTarget {
 public:
  explicit OnHighwayTarget(std::int64_t target) { choose(target); }
  ~OnHighwayTarget() { choose(0); }
  OnHighwayTarget(const OnHighwayTarget&) = delete;
  OnHighwayTarget& operator=(const OnHighwayTarget&) = delete;

 private:
  /// 0: the processor's own.
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace strata
