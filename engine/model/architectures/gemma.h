// What Gemma 2 and 3 (text) have in common: norms on both sides of attention and MLP, whose factor is 1 +
// weight, and layers that slide beside layers that see all.
#pragma once

#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/decoder.h"

namespace strata {

struct GemmaDefaults {
  SizeDefaults sizes;
  std::int64_t sliding_pattern;  ///< if the file does not say: each such layer does not slide
  double logits_cap;             ///< 0: none
};

/// A soft cap on scores or logits: 0 if it is null.
double read_soft_cap(JsonReader& reader, const std::string& key, double fallback);
nlohmann::json soft_cap_config(double cap);

/// All but rotations and the cap on scores.
void read_gemma(JsonReader& reader, Architecture& a, const GemmaDefaults& defaults);
nlohmann::json gemma_config(const Architecture& a);

NormOptions gemma_norm(const Architecture& a);
/// 1 for layers that slide, 0 for the others.
std::int64_t gemma_kind_of_layer(const Architecture& a, std::int64_t layer);
/// `options`: of a layer that slides.
UnitBuilder gemma_block(const Architecture& a, std::int64_t layer, AttentionOptions options);
UnitBuilder gemma_head(const Architecture& a, const Unit& embedding);

}  // namespace strata
