#include "engine/model/architectures/architecture_rules.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace strata {

std::span<const ArchitectureRules* const> all_architectures() {
  static constexpr std::array<const ArchitectureRules*, 13> kAll = {
      &kGpt2,    &kLlama,  &kMistral, &kQwen2,   &kQwen3,    &kOlmo2,     &kPhi3,
      &kGranite, &kGemma2, &kGemma3,  &kMixtral, &kQwen3Moe, &kStarcoder2};
  return kAll;
}

const ArchitectureRules& rules_of(const Architecture& architecture) {
  const auto all = all_architectures();
  const auto found = std::ranges::find(all, architecture.model_type, &ArchitectureRules::model_type);
  if (found == all.end()) throw std::logic_error("no architecture " + architecture.model_type);
  return **found;
}

std::vector<Rotation> rotations_of(const Architecture& architecture) {
  const ArchitectureRules& rules = rules_of(architecture);
  return rules.rotations == nullptr ? std::vector<Rotation>() : rules.rotations(architecture);
}

}  // namespace strata
