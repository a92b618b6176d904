#include "engine/plan/program/rounds.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The rounds, of six, in which an instruction does its work.
Numbers performed(const Rounds& rounds, Serves serves, When when = When::every_step, std::int32_t model = 0) {
  Numbers numbers;
  for (std::int64_t round = 0; round < 6; ++round) {
    const Instruction instruction = {.when = when, .serves = serves, .model = model};
    if (rounds.performs(instruction, round)) numbers.push_back(round);
  }
  return numbers;
}

TEST(Rounds, PerformWhatServesAStepInItsRoundOrInTheOneBehind) {
  const Rounds rounds = {{{.steps = {3, 2}, .saves = {.every = 2, .steps = 9}}}};
  EXPECT_EQ(performed(rounds, Serves::step), (Numbers{0, 1}));
  EXPECT_EQ(performed(rounds, Serves::step_before), (Numbers{1, 2}));
  EXPECT_EQ(performed(rounds, Serves::both), (Numbers{0, 1, 2}));
  EXPECT_EQ(performed(rounds, Serves::first_step), (Numbers{0}));
  EXPECT_EQ(performed(rounds, Serves::step, When::saving), (Numbers{0}));  // step 3, the second of two
  EXPECT_EQ(performed(rounds, Serves::step_before, When::saving), (Numbers{1}));
}

// Invariant: A model that ends changes nothing for others.
TEST(Rounds, PerformNothingOfAModelThatHasNoSteps) {
  const Rounds rounds = {{{.steps = {0, 6}}, {.steps = {4, 0}}}};
  for (const Serves serves : {Serves::step, Serves::step_before, Serves::both, Serves::first_step})
    EXPECT_EQ(performed(rounds, serves, When::every_step, 1), Numbers{}) << text_of(serves);
}

}  // namespace
}  // namespace strata
