// All that must agree with the reference. Tests of kernels are written once and instantiated for each; the
// program that they are linked into says which there are.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/scenario.h"

namespace strata {

struct ImplementationChoice {
  std::string name;
  std::unique_ptr<Implementation> (*make)(const std::string& name);
  std::string (*why_missing)(const std::string& name);  ///< empty if this machine has it
};
std::ostream& operator<<(std::ostream& out, const ImplementationChoice& choice);
/// The last part of a test's name.
std::string name_of_choice(const ::testing::TestParamInfo<ImplementationChoice>& info);

/// This program's.
std::vector<ImplementationChoice> implementation_choices();

/// A test for one choice; skipped if the machine doesn't have it.
class EveryImplementation : public ::testing::TestWithParam<ImplementationChoice> {
 protected:
  void SetUp() override;
  Implementation& implementation() { return *implementation_; }
  void expect_agrees(const Scenario& scenario) { expect_agrees_with_reference(scenario, *implementation_); }

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace strata
