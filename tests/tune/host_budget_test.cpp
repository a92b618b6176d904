#include "engine/run/tune/host_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "tests/plan/support.h"

namespace strata {
namespace {

using test::tiny_config;
using test::tiny_model;
using ::testing::HasSubstr;

TEST(HostShare, IsWhatIsLeftOfTheMachineForEachRank) {
  const Model model = tiny_model();
  const RunConfig config = tiny_config();
  const HostShare one = share_of_host(config, model, {.memory = 16 * GiB}, 1),
                  four = share_of_host(config, model, {.memory = 16 * GiB}, 4);
  EXPECT_EQ(one.for_tiers + one.reserve + one.scratch, 16 * GiB);
  EXPECT_EQ(four.for_tiers + four.reserve + four.scratch, 4 * GiB);
  const HostShare with_kernels = share_of_host(config, model, {.memory = 16 * GiB}, 1, GiB);
  EXPECT_EQ(with_kernels.for_tiers, one.for_tiers - GiB);
  EXPECT_NE(with_kernels.describe().find("1.00 GiB for kernels' scratch"), std::string::npos);
  EXPECT_GT(one.reserve, GiB);
  EXPECT_EQ(share_of_host(config, model, {.memory = kUnlimited}, 2).for_tiers, kUnlimited);
}

/// In a small container it is more than an eighth.
TEST(HostShare, LeavesWhatTheProcessesNeedAndRefusesLess) {
  const Model model = tiny_model();
  RunConfig config = tiny_config();
  config.memory.device = kUnlimited;
  const auto share = [&](Bytes memory, int ranks) {
    return share_of_host(config, model, {.memory = memory}, ranks);
  };
  EXPECT_EQ(share(400 * MiB, 1).reserve, 229 * MiB);
  EXPECT_LT(share(400 * MiB, 1).for_tiers, 171 * MiB);
  EXPECT_EQ(share(700 * MiB, 2).reserve, 177 * MiB);
  const auto refusal = [&](Bytes memory, int ranks) -> std::string {
    try {
      share(memory, ranks);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(100 * MiB, 1),
              AllOf(HasSubstr("memory: 100.00 MiB is too little"), HasSubstr("229.00 MiB for the process"),
                    HasSubstr("give the container more than 22")));
  EXPECT_THAT(refusal(300 * MiB, 2), HasSubstr("2 ranks need"));
  EXPECT_EQ(refusal(300 * MiB, 1), "");
  config.memory.device = 10 * MiB;
  config.memory.host = 10 * MiB;
  EXPECT_GT(share(100 * MiB, 1).for_tiers, 0) << "a number is only warned of";
}

TEST(HostShare, CountsTheLargestUnitsValues) {
  const Model model = tiny_model(3, true, 4000);
  RunConfig config = tiny_config();
  const Bytes values = model.embedding().elements * 4;
  EXPECT_EQ(scratch_bytes(config, model), values);
  config.device.kind = DeviceKind::cuda;  // their stored form, and its parameter, are staged, too
  EXPECT_EQ(scratch_bytes(config, model), values + values / 2 * 3);
  config.device.kind = DeviceKind::cpu;
  config.parallel.data = 2;
  config.train.batch *= 2;
  EXPECT_EQ(scratch_bytes(config, model), values);  // half, and half of another rank's
}

TEST(HostShare, OfDrivesIsWhatIsFreeForEachRank) {
  const Model model = tiny_model();
  const RunConfig config = tiny_config();
  EXPECT_EQ(share_of_host(config, model, {.drives = 6 * GiB}, 3).drives, 2 * GiB);
  EXPECT_EQ(share_of_host(config, model, {}, 3).drives, kUnlimited);
}

MemorySection resolved(MemorySection memory, DeviceKind device) {
  set_unlimited(memory, device, {.machine = 12 * GiB, .for_tiers = 10 * GiB});
  return memory;
}

TEST(UnlimitedBudgets, AreWhatTheMachineHas) {
  MemorySection memory;
  memory.host = kUnlimited;
  EXPECT_EQ(resolved(memory, DeviceKind::cuda).host, 10 * GiB);
  EXPECT_EQ(resolved(memory, DeviceKind::cuda).device, kUnlimited);  // the device's own
  memory.device = 3 * GiB;
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).host, 7 * GiB);
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).device, 3 * GiB);
  memory.device = kUnlimited;
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).host, 5 * GiB);
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).device, 5 * GiB);
  memory.host = 4 * GiB;
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).device, 6 * GiB);
  memory.host.reset();
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).device, 10 * GiB);
  EXPECT_EQ(resolved(memory, DeviceKind::cpu).host, std::nullopt);
}

TEST(UnlimitedBudgets, ThatAreGivenStayAndAreDoubtedWhereTheMachineHasLess) {
  RunConfig config;
  config.memory.host = 2048 * GiB;
  EXPECT_EQ(resolved(config.memory, DeviceKind::cpu).host, 2048 * GiB);
  const HostShare share = {.machine = 12 * GiB, .for_tiers = 10 * GiB};
  EXPECT_THAT(warn_of_budgets(config, share),
              HasSubstr("memory.host: 2.00 TiB is more than this machine has"));
  config.memory.host = 8 * GiB;
  EXPECT_EQ(warn_of_budgets(config, share), "");
  config.memory.device = 6 * GiB;
  EXPECT_THAT(warn_of_budgets(config, share), HasSubstr("for both tiers"));
}

TEST(UnlimitedBudgets, OfDrivesAreWhatIsFreeThere) {
  MemorySection memory;
  memory.host = GiB;
  const HostShare share = {.for_tiers = 10 * GiB, .drives = 7 * GiB};
  set_unlimited(memory, DeviceKind::cuda, share);
  EXPECT_EQ(memory.nvme_size, 7 * GiB);
  memory.nvme_size = 9 * GiB;
  set_unlimited(memory, DeviceKind::cuda, share);
  EXPECT_EQ(memory.nvme_size, 9 * GiB);
}

TEST(UnlimitedBudgets, SendToTheDriveWhatTheMachineHasNoRoomFor) {
  const Model model = tiny_model(8, false, 4000);
  RunConfig config = tiny_config();
  config.memory.device = 768 * KiB;
  config.memory.nvme_path = {"/drive"};
  const Bytes needed = make_plan(config, model).arena_bytes(Tier::host);
  config.memory.host = kUnlimited;
  set_unlimited(config.memory, DeviceKind::cpu, {.machine = needed, .for_tiers = needed});
  const ModelPlan plan = make_plan(config, model);
  EXPECT_LE(plan.arena_bytes(Tier::host), needed - config.memory.device);
  EXPECT_GT(plan.arena_bytes(Tier::nvme), 0);
}

}  // namespace
}  // namespace strata
