// What golden files of update rules have: numbers of fp32 as bits, and settings by our names.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "optim/update_policy.h"
#include "optim/update_rule.h"

namespace strata::test {

inline std::vector<float> floats_of_bits(const nlohmann::json& json) {
  std::vector<float> floats;
  for (const nlohmann::json& word : json) floats.push_back(std::bit_cast<float>(word.get<std::int32_t>()));
  return floats;
}

/// A golden's settings; what it leaves out has its default.
inline RuleSettings settings_in(const nlohmann::json& golden) {
  const nlohmann::json& settings = golden.at("settings");
  RuleSettings ours;
  ours.beta1 = settings.value("beta1", ours.beta1);
  ours.beta2 = settings.value("beta2", ours.beta2);
  ours.epsilon = settings.value("epsilon", ours.epsilon);
  ours.alpha = settings.value("alpha", ours.alpha);
  ours.momentum = settings.value("momentum", ours.momentum);
  ours.beta3 = settings.value("beta3", ours.beta3);
  ours.slow_warmup = settings.value("slow_warmup", ours.slow_warmup);
  ours.scale = settings.value("scale", ours.scale);
  ours.decay_rate = settings.value("decay_rate", ours.decay_rate);
  ours.clip_threshold = settings.value("clip_threshold", ours.clip_threshold);
  return ours;
}

inline UpdateRule rule_named(const std::string& name) {
  const auto found =
      std::ranges::find(kUpdateRules, name, [](UpdateRule rule) { return std::string(name_of(rule)); });
  EXPECT_NE(found, kUpdateRules.end()) << name;
  return *found;
}

}  // namespace strata::test
