#include "engine/run/tune/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/config/load.h"
#include "engine/config/run_config.h"

namespace strata {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

RunConfig config_of(const std::string& text) {
  return parse_run_config("model: {path: m}\ndata: {path: t}\n" + text, "run.yaml");
}

std::vector<std::string> settings(const std::vector<Change>& changes) {
  std::vector<std::string> all;
  for (const Change& change : changes) all.insert(all.end(), change.settings.begin(), change.settings.end());
  return all;
}

constexpr ChangeFacts kMemoryHelps = {
    .uses_drives = true, .memory_helps = true, .enough_device = 8 * GiB, .enough_host = 16 * GiB};

TEST(Changes, AreKeysThatTheRunFileTakes) {
  const std::string text =
      "train: {precision: bf16, batch: 8, microbatch: 2, recompute: full}\n"
      "memory: {device: 1GiB, host: 2GiB, nvme: {path: d, limit: {read: 1GB/s}}, placement: {parameters: "
      "host}}\nplan: {order: layer_major}\ndevice: {link: {h2d: 1GB/s, d2h: 2GB/s}}\n";
  const RunConfig config = config_of(text);
  for (const auto& changes :
       {faster_changes({config}, kMemoryHelps), smaller_changes({config}, kMemoryHelps)}) {
    EXPECT_GT(changes.size(), 10U);
    for (const Change& change : changes) {
      if (change.settings.empty()) continue;
      EXPECT_FALSE(parse_run_config("model: {path: m}\ndata: {path: t}\n" + text, "run.yaml",
                                    change.settings) == config)
          << change.settings.front();
    }
  }
}

TEST(Changes, AskForMemoryUpToWhatIsEnough) {
  const RunConfig config = config_of("train: {precision: bf16}\nmemory: {device: 1GiB, host: 2GiB}\n");
  const std::vector<std::string> all = settings(faster_changes({config}, kMemoryHelps));
  EXPECT_THAT(all, Contains("memory.device=1280MiB"));
  EXPECT_THAT(all, Contains("memory.device=8GiB"));
  EXPECT_THAT(all, Contains("memory.host=16GiB"));
  EXPECT_THAT(all, Not(Contains("memory.device=16GiB")));
  EXPECT_THAT(settings(faster_changes({config}, {})), Not(Contains(StartsWith("memory."))));
}

TEST(Changes, AskForNothingThatThePlannerChoosesByItself) {
  const RunConfig config = config_of("train: {precision: bf16}\nmemory: {device: 1GiB, host: 2GiB}\n");
  const std::vector<std::string> all = settings(faster_changes({config}, kMemoryHelps));
  for (const char* key : {"plan.", "train.recompute", "memory.placement", "parallel."})
    EXPECT_THAT(all, Not(Contains(StartsWith(key))));
}

TEST(Changes, LeaveKeysAloneInWhichModelsDiffer) {
  const RunConfig one = config_of("train: {precision: bf16, batch: 8}\n");
  const RunConfig other = config_of("train: {precision: bf16, batch: 16}\n");
  EXPECT_THAT(settings(faster_changes({one, one}, {})), Contains("train.batch=16"));
  EXPECT_THAT(settings(faster_changes({one, other}, {})), Not(Contains(StartsWith("train.batch"))));
}

TEST(Changes, SayWhatTheyDoToResults) {
  const std::map<std::string, ChangeEffect> effects = {{"memory.device", ChangeEffect::none},
                                                       {"memory.host", ChangeEffect::none},
                                                       {"train.microbatch", ChangeEffect::rounding},
                                                       {"train.batch", ChangeEffect::learning},
                                                       {"optimizer.moments", ChangeEffect::learning},
                                                       {"optimizer.clip_by", ChangeEffect::learning},
                                                       {"drive", ChangeEffect::machine}};
  std::set<std::string> kinds;
  const RunConfig config =
      config_of("train: {precision: bf16, batch: 8}\nmemory: {device: 1GiB, host: 2GiB}\n");
  for (const Change& change : faster_changes({config}, kMemoryHelps)) {
    // One is exact, the other is not.
    const bool is_exact = change.settings == std::vector<std::string>{"optimizer.master=split"};
    if (change.kind() == "optimizer.master") {
      EXPECT_EQ(change.effect, is_exact ? ChangeEffect::rounding : ChangeEffect::learning);
    }
    const auto found = effects.find(change.kind());
    if (found == effects.end()) continue;
    EXPECT_EQ(change.effect, found->second) << change.kind();
    kinds.insert(change.kind());
  }
  EXPECT_EQ(kinds.size(), effects.size());
}

TEST(Changes, ThatMakeARunFitSetBothFormatsOfTheStateTogetherToo) {
  const auto pairs = [](const std::string& text) {
    const std::vector<Change> changes = smaller_changes({config_of(text)}, {});
    return std::ranges::count(changes, std::string("optimizer.master optimizer.moments"), &Change::kind);
  };
  EXPECT_EQ(pairs("train: {precision: bf16}\n"), 2);
  EXPECT_EQ(pairs("train: {precision: fp32}\n"), 0);
  EXPECT_EQ(pairs("train: {precision: bf16}\noptimizer: {moments: bf16}\n"), 1);
  EXPECT_EQ(pairs("train: {precision: bf16}\noptimizer: {moments: 8bit}\n"), 0);
  EXPECT_EQ(pairs("train: {precision: bf16}\noptimizer: {master: split}\n"), 0);
}

TEST(Changes, ArePartsOfThoseThatSetMore) {
  const Change one = {.settings = {"a=1"}}, both = {.settings = {"a=1", "b=2"}}, link = {.link = 2};
  EXPECT_TRUE(one.is_part_of(both));
  EXPECT_FALSE(both.is_part_of(one));
  EXPECT_FALSE(one.is_part_of(one));
  EXPECT_FALSE(Change{.settings = {"a=2"}}.is_part_of(both));
  EXPECT_FALSE(link.is_part_of(both));
}

TEST(Changes, AskForBf16WhereTheRunHasFp32) {
  const std::vector<std::string> of_fp32 =
      settings(faster_changes({config_of("train: {precision: fp32}\n")}, {}));
  EXPECT_THAT(of_fp32, Contains("train.precision=bf16"));
  EXPECT_THAT(of_fp32, Not(Contains(StartsWith("optimizer.master"))));
  EXPECT_THAT(settings(faster_changes({config_of("train: {precision: bf16}\n")}, {})),
              Not(Contains(StartsWith("train.precision"))));
}

TEST(Changes, AskForCodesOfWhatIsFrozen) {
  const auto formats = [](const std::string& text) {
    std::vector<std::string> found;
    for (const Change& change : faster_changes({config_of(text)}, {})) {
      if (change.kind() != "memory.frozen_as") continue;
      found.push_back(change.settings.front());
      EXPECT_EQ(change.effect, ChangeEffect::learning);
    }
    return found;
  };
  const std::string lora = "train: {precision: bf16}\nadapter: {type: lora}\n";
  EXPECT_EQ(formats(lora), (std::vector<std::string>{"memory.frozen_as=int8", "memory.frozen_as=nf4"}));
  EXPECT_EQ(formats(lora + "memory: {frozen_as: int8}\n"), std::vector<std::string>{"memory.frozen_as=nf4"});
  EXPECT_EQ(formats(lora + "memory: {frozen_as: nf4}\n"), std::vector<std::string>());
  EXPECT_EQ(formats("train: {precision: bf16}\n"), std::vector<std::string>());
}

TEST(Changes, OfALargeRunAreFewer) {
  const RunConfig config =
      config_of("train: {precision: bf16, batch: 8}\nmemory: {device: 1GiB, host: 2GiB}\n");
  ChangeFacts large = kMemoryHelps;
  large.is_large = true;
  EXPECT_LT(faster_changes({config}, large).size(), faster_changes({config}, kMemoryHelps).size());
}

TEST(Changes, OfRatesMultiplyThem) {
  const MachineRates rates = {.h2d_bytes_per_second = 3,
                              .d2h_bytes_per_second = 5,
                              .nvme_read_bytes_per_second = 7,
                              .nvme_write_bytes_per_second = 11};
  const MachineRates link = Change{.link = 2}.rates(rates), drive = Change{.drive = 2}.rates(rates);
  EXPECT_EQ(link.h2d_bytes_per_second, 6);
  EXPECT_EQ(link.d2h_bytes_per_second, 10);
  EXPECT_EQ(link.nvme_read_bytes_per_second, 7);
  EXPECT_EQ(drive.nvme_read_bytes_per_second, 14);
  EXPECT_EQ(drive.nvme_write_bytes_per_second, 22);
  EXPECT_EQ(drive.h2d_bytes_per_second, 3);
}

}  // namespace
}  // namespace strata
