// What every test program does before main: strata_test() links it into each. Memory is handed out dirty,
// here and in the programs that are started from here. A wrong cap of the vector code ends the program
// instead of being ignored. A case that takes too long ends the program, which names the case. A launch that
// repeats others with a cap skips all cases if the processor has nothing above it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/vector_target.h"

namespace strata::test {
namespace {

[[maybe_unused]] const bool kMemoryIsDirty = setenv("STRATA_DIRTY_MEMORY", "1", 1) == 0;
[[maybe_unused]] const VectorTarget kTarget = vector_target();

[[maybe_unused]] const bool kRepeatsNoLaunch = [] {
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE
  if (std::getenv("STRATA_SKIP_WITHOUT_CAP") == nullptr || kTarget < best_vector_target()) return true;
  const std::string best(name_of(best_vector_target()));
  std::printf("this processor has nothing above %s: launches without a cap have run these cases\n",
              best.c_str());
  std::exit(kSkipped);
}();

/// STRATA_CASE_SECONDS in the environment, for the test of this file, or the build's limit.
unsigned case_seconds() {
  const char* variable = std::getenv("STRATA_CASE_SECONDS");
  return variable == nullptr ? STRATA_TEST_TIMEOUT : static_cast<unsigned>(std::atoi(variable));
}

/// ctest launches many cases at once, so the limit of a single one is kept here: by a signal, which also
/// comes while every thread of the case hangs. Processes that a case starts do not inherit it.
class CaseLimit final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override {
    message_ = std::string("\n[ TIMEOUT  ] ") + test.test_suite_name() + "." + test.name() +
               " took longer than " + std::to_string(seconds_) + " s\n";
    text_ = message_.c_str();
    std::signal(SIGALRM, &end);
    alarm(seconds_);
  }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override { alarm(0); }

 private:
  static void end(int /*signal*/) {
    [[maybe_unused]] const auto written = write(STDOUT_FILENO, text_, std::char_traits<char>::length(text_));
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }

  static inline const char* text_ = nullptr;
  const unsigned seconds_ = case_seconds();
  std::string message_;
};

[[maybe_unused]] const bool kCasesAreLimited = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new CaseLimit);
  return true;
}();

}  // namespace
}  // namespace strata::test
