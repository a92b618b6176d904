// Which values of a run file ranks must have in common.
#include "engine/config/common_values.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/config/keys.h"
#include "engine/config/run_config.h"

namespace strata {
namespace {

TEST(CommonValues, NameNoKeyThatIsNotThere) {
  for (const auto& keys : {keys_of_one_host(), paths_on_one_host()}) {
    for (const std::string& key : keys)
      EXPECT_EQ(std::ranges::count(config_keys(), key, &Key::path), 1) << key;
  }
}

TEST(CommonValues, AreNotWhatTellsOfOneHost) {
  RunConfig first;
  first.data.path = {"/data/a"};
  RunConfig second = first;
  second.data.path = {"/mnt/a", "/mnt/b"};
  second.plan.machine = "node7.json";
  second.train.threads = 12;
  EXPECT_EQ(common_values(first), common_values(second));
}

TEST(CommonValues, AreAllElse) {
  const RunConfig first;
  RunConfig other_seed = first, with_checkpoints = first, other_budget = first, other_groups = first;
  other_seed.train.seed = 7;
  with_checkpoints.checkpoint.path = "out";
  other_budget.memory.device = GiB;
  other_groups.optimizer.groups = {{.tensors = {"*.bias"}, .weight_decay = 0}};
  for (const RunConfig& second : {other_seed, with_checkpoints, other_budget, other_groups})
    EXPECT_NE(common_values(first), common_values(second));
}

}  // namespace
}  // namespace strata
