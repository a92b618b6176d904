// Narrows Highway's choice of instruction sets, so that tests reach the code that this processor would not
// choose.
#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <vector>

namespace strata {

/// The targets of this process, the best first. Highway's own list must not be asked for elsewhere: in
/// Highway 1.0.3 that lets the process choose from all targets of its processor, whatever its cap.
inline std::vector<std::int64_t> highway_targets() {
  std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return targets;
}

/// While it lives, the vector code of this process runs on `target`, one of highway_targets().
class OnHighwayTarget {
 public:
  explicit OnHighwayTarget(std::int64_t target) { choose(target); }
  ~OnHighwayTarget() { choose(0); }
  OnHighwayTarget(const OnHighwayTarget&) = delete;
  OnHighwayTarget& operator=(const OnHighwayTarget&) = delete;

 private:
  /// 0: the process's own.
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace strata
