// Policies of tensors leave a program as it is, but for the room of what a step tells its updates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config/choices.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "optim/step_scalars.h"
#include "tests/plan/support.h"

namespace strata::test {
namespace {

Model model_with(const OptimizerSection& optimizer) {
  return build_model(tiny_model().architecture, {.optimizer = optimizer});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Invariant: Groups change only what they name.
TEST(TensorPolicies, ChangeOnlyTheScalarsOfAProgram) {
  OptimizerSection groups, all;
  groups.groups = {{.tensors = {"*.mlp.*"}, .learning_rate_factor = 2},
                   {.tensors = {"*norm*"}, .weight_decay = 1},
                   {.tensors = {"*.1.*"}, .weight_decay = 3}};
  all.decay = Decay::all;
  const Model plain = model_with({}), grouped = model_with(groups), decayed = model_with(all);
  ASSERT_EQ(grouped.policies.size(), 2U + 4U);
  for (const StrategyOptions& options :
       with_pieces({{}, {.units_on_device = 5}, {.units_on_device = 2, .clips = false}})) {
    const auto program = [&](const Model& model) {
      return print(lower_training(model, tiny_strategy(model, options)));
    };
    const std::string expected = program(plain);
    EXPECT_EQ(program(decayed), expected);
    EXPECT_NE(program(grouped), expected);
    std::string shorter = program(grouped);
    for (const auto form : {fmt::runtime("byte[{}]"), fmt::runtime("{} bytes")})
      shorter = replaced(shorter, fmt::format(form, StepScalars::bytes(6)),
                         fmt::format(form, StepScalars::bytes(2)));
    EXPECT_EQ(shorter, expected);
  }
}

}  // namespace
}  // namespace strata::test
