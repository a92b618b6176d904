// An architecture in one place: how its config.json is read and written, and the units of its models. Each
// has a file of its own; a new one is such a file and a line in architecture_rules.cpp. Tensors' names are
// those of HF's checkpoints.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/config/json_reader.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/rotary.h"
#include "engine/model/graph/unit_builder.h"

namespace strata {

struct ArchitectureRules {
  std::string_view model_type;
  std::string_view hf_class;
  /// Reads what only some architectures have; `where` names the file.
  void (*read)(JsonReader& reader, Architecture& architecture, const std::string& where);
  nlohmann::json (*write)(const Architecture& architecture);
  // The units stand in this order: the embedding, the blocks, the head.
  UnitBuilder (*embedding)(const Architecture& architecture);
  UnitBuilder (*block)(const Architecture& architecture, std::int64_t layer);
  /// `embedding`: the unit whose table a tied head uses.
  UnitBuilder (*head)(const Architecture& architecture, const Unit& embedding);
  /// Layers that give the same number have one graph; null: all do.
  std::int64_t (*kind_of_layer)(const Architecture& architecture, std::int64_t layer) = nullptr;
  /// What `UnitBuilder::rope` counts; null: nothing rotates.
  std::vector<Rotation> (*rotations)(const Architecture& architecture) = nullptr;
};

std::span<const ArchitectureRules* const> all_architectures();
/// REQUIRES: there is one.
const ArchitectureRules& rules_of(const Architecture& architecture);
/// Empty if nothing rotates.
std::vector<Rotation> rotations_of(const Architecture& architecture);

extern const ArchitectureRules kGpt2, kLlama, kMistral, kQwen2, kQwen3, kOlmo2, kPhi3, kGranite, kGemma2,
    kGemma3, kMixtral, kQwen3Moe, kStarcoder2;

}  // namespace strata
