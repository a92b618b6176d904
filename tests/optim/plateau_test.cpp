#include "optim/plateau.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/source_folder.h"

namespace strata {
namespace {

/// tests/optim/make_plateau_goldens.py makes the goldens.
TEST(Plateau, FallsWhereTorchsDoes) {
  std::ifstream file(test::source_folder() / "tests/optim/plateau_goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_EQ(goldens.size(), 3U);
  for (const nlohmann::json& golden : goldens) {
    const PlateauSettings settings = {.factor = golden.at("factor"),
                                      .patience = golden.at("patience"),
                                      .threshold = golden.at("threshold"),
                                      .cooldown = golden.at("cooldown")};
    Plateau plateau;
    for (std::size_t v = 0; v < golden.at("losses").size(); ++v) {
      const nlohmann::json& loss = golden.at("losses")[v];
      plateau = next_plateau(settings, plateau, 10 * (static_cast<std::int64_t>(v) + 1),
                             loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>());
      const double expected = golden.at("rates")[v];
      EXPECT_NEAR(std::max(golden.at("minimum").get<double>(), plateau_factor(settings, plateau)), expected,
                  1e-12 * expected)
          << "validation " << v;
    }
    EXPECT_GT(plateau.falls, 1);
  }
}

TEST(Plateau, CountsAStepOnce) {
  const PlateauSettings settings = {.patience = 1};
  Plateau plateau = next_plateau(settings, {}, 10, 2);
  plateau = next_plateau(settings, plateau, 20, 3);
  EXPECT_EQ(plateau.waited, 1);
  EXPECT_EQ(next_plateau(settings, plateau, 20, 3), plateau) << "the first validation of a resumed run";
  EXPECT_EQ(next_plateau(settings, plateau, 30, 3).falls, 1);
  EXPECT_EQ(next_plateau(settings, {}, 0, 2), Plateau()) << "nothing is learned before the first step";
}

}  // namespace
}  // namespace strata
