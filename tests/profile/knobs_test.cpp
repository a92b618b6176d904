// Each buffer has knobs, and each knob is a key of the run file.
#include "engine/tools/profile/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/config/describe.h"

namespace strata {
namespace {

/// Whether the run file has the key: each of its words, one further in than the one before.
bool is_key(std::string_view key, std::string_view help) {
  std::string indent = "\n";
  std::size_t from = 0;
  while (!key.empty()) {
    const std::string_view word = key.substr(0, key.find('.'));
    from = help.find(indent + std::string(word) + ":", from);
    if (from == std::string_view::npos) return false;
    key.remove_prefix(std::min(key.size(), word.size() + 1));
    indent += "  ";
  }
  return true;
}

TEST(Knobs, AreKeysOfTheRunFile) {
  const std::string help = "\n" + help_config();
  EXPECT_FALSE(is_key("memory.placement.weights", help));
  for (const BufferKind kind : kBufferKinds) {
    for (const Tier tier : kTiers) {
      EXPECT_FALSE(knobs_of(kind, tier).empty()) << name_of(kind) << " on " << name_of(tier);
      for (const Knob& knob : knobs_of(kind, tier)) {
        EXPECT_TRUE(is_key(knob.key, help)) << knob.key;
        EXPECT_FALSE(knob.how.empty()) << knob.key;
      }
    }
  }
}

TEST(Knobs, SayWhichTierIsTheNext) {
  const auto how = [](BufferKind kind, Tier tier, std::string_view key) {
    const auto knobs = knobs_of(kind, tier);
    const auto found = std::ranges::find(knobs, key, &Knob::key);
    return found == knobs.end() ? std::string() : std::string(found->how);
  };
  const std::string_view placement = "memory.placement.optimizer_state";
  EXPECT_TRUE(how(BufferKind::optimizer_state, Tier::device, placement).starts_with("host"));
  EXPECT_TRUE(how(BufferKind::optimizer_state, Tier::host, placement).starts_with("nvme"));
  EXPECT_TRUE(how(BufferKind::optimizer_state, Tier::nvme, placement).starts_with("host"));
  EXPECT_EQ(knobs_of(BufferKind::activation, Tier::device).front().key, "train.recompute");
  EXPECT_EQ(how(BufferKind::workspace, Tier::device, "memory.device"), "");
}

}  // namespace
}  // namespace strata
