// STRATA_VECTOR_TARGET: what it caps, and what becomes of a name that is none.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/cli/workspace.h"

namespace strata::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class VectorTargetOfTheProgram : public Workspace {
 protected:
  ~VectorTargetOfTheProgram() override { unsetenv("STRATA_VECTOR_TARGET"); }
  static void cap(const char* target) { setenv("STRATA_VECTOR_TARGET", target, 1); }
};

TEST_F(VectorTargetOfTheProgram, IsSaidByTheDoctorForHighwayAndOneDnn) {
  cap("sse4");
  EXPECT_THAT(strata({"doctor"}).out,
              HasSubstr("sse4, matrix products with sse41 (capped by STRATA_VECTOR_TARGET)"));
  unsetenv("STRATA_VECTOR_TARGET");
  EXPECT_THAT(strata({"doctor"}).out, AllOf(HasSubstr("vector code"), Not(HasSubstr("capped by"))));
}

TEST_F(VectorTargetOfTheProgram, ThatIsNoneIsRefusedByEveryCommand) {
  cap("avx1024");
  for (const char* command : {"train", "plan", "doctor"}) {
    expect_sentence(strata({command, "run.yaml"}), 2,
                    {"STRATA_VECTOR_TARGET in the environment is \"avx1024\"",
                     "baseline, sse4, avx2, avx512, avx512_bf16"});
  }
}

TEST_F(VectorTargetOfTheProgram, TrainsOnEach) {
  for (const char* target : {"baseline", "sse4", "avx2", "avx512", "avx512_bf16"}) {
    cap(target);
    const Outcome outcome = strata({"train", "run.yaml", "--fresh"});
    EXPECT_EQ(outcome.status, 0) << target << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace strata::test
