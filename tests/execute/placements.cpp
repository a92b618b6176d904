#include "tests/execute/placements.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/execute/support.h"
#include "tests/support/drive.h"

namespace strata::test {

RunConfig on_drives(RunConfig config, const std::filesystem::path& folder) {
  config.memory.device = smallest_bytes(config) + 40 * KiB;
  config.memory.nvme_path = {folder.string()};
  config.memory.optimizer_state = config.memory.parameters = TierChoice::nvme;
  return config;
}

void expect_the_same_bits_wherever_state_lives(const RunConfig& resident,
                                               const std::filesystem::path& folder) {
  const std::string expected = run(resident).result.state_hash;
  RunConfig hosted = resident;
  hosted.memory.device = smallest_bytes(hosted);
  std::vector<RunConfig> placed = {resident, hosted};
  if (why_no_drive(folder).empty()) placed.push_back(on_drives(resident, folder));
  for (RunConfig each : placed) {
    for (const LaneMode lanes : {LaneMode::serial, LaneMode::overlapped}) {
      each.plan.lanes = lanes;
      const RunOutcome outcome = run(each);
      EXPECT_EQ(outcome.result.state_hash, expected);
      expect_the_plan_was_exact(outcome);
    }
  }
}

std::set<std::string> hashes_of_two_ranks(const RunConfig& resident) {
  RunConfig hosted = resident;
  hosted.memory.device = smallest_bytes(hosted);
  std::set<std::string> hashes;
  for (const RunConfig& config : {resident, hosted}) {
    for (const RunOutcome& rank : run_ranks(config, 2)) {
      hashes.insert(rank.result.state_hash);
      expect_the_plan_was_exact(rank);
    }
  }
  return hashes;
}

}  // namespace strata::test
