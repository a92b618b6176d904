#include "tests/device/implementations.h"

#include <ostream>

namespace strata {

std::ostream& operator<<(std::ostream& out, const ImplementationChoice& choice) {
  return out << choice.name;
}

std::string name_of_choice(const ::testing::TestParamInfo<ImplementationChoice>& info) {
  return info.param.name;
}

void EveryImplementation::SetUp() {
  const ImplementationChoice& choice = GetParam();
  if (const std::string why = choice.why_missing(choice.name); !why.empty()) GTEST_SKIP() << why;
  implementation_ = choice.make(choice.name);
}

}  // namespace strata
