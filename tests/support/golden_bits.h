// Numbers of golden files, which have fp32 as bits.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata::test {

inline std::vector<float> floats_of_bits(const nlohmann::json& json) {
  std::vector<float> floats;
  for (const nlohmann::json& word : json) floats.push_back(std::bit_cast<float>(word.get<std::int32_t>()));
  return floats;
}

}  // namespace strata::test
