// What tests of config.json share: how they read one, and tables of configs that are refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/model/architectures/architecture.h"

namespace strata::test {

inline Architecture parse(const nlohmann::json& config) {
  return parse_architecture(config, "folder/config.json");
}

inline nlohmann::json rope(const char* model_type, nlohmann::json parameters) {
  return {{"model_type", model_type}, {"rope_parameters", std::move(parameters)}};
}

struct Refusal {
  const char* name;
  nlohmann::json config;
  std::vector<std::string> parts;  ///< of the sentence
};

/// Its case is in architecture_test.cpp; each file of a family has a table of its own.
class ArchitectureRefusal : public ::testing::TestWithParam<Refusal> {};

inline std::string name_of_refusal(const ::testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}

}  // namespace strata::test
