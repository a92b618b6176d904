// Gemma 3, text (transformers: Gemma3ForCausalLM): Gemma's layers with norms of queries and keys, and a
// rotation of its own for each kind of layers.
// Not in a unity build: each architecture has its own read(), write() and block().
#include <algorithm>
#include <optional>

#include "base/nth.h"
#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/gemma.h"

namespace strata {
namespace {

/// The settings of one kind of layers.
RopeOptions read_settings(const nlohmann::json& object, const Architecture& a, const std::string& where,
                          double theta) {
  JsonReader settings(object, where);
  RopeOptions rope = read_rope_settings(settings, a, {.theta = theta, .may_differ_by_length = false});
  if (rope.yarn && !rope.yarn->truncates)
    settings.refuse("truncate",
                    "transformers truncates all the same where layers have settings of their own");
  settings.refuse_unknown_keys();
  return rope;
}

/// Files of transformers 5 have the settings of both kinds of layers; older ones say the theta of each, and a
/// scaling of the layers that see all. Where both stand, transformers puts the scaling over the settings.
void read_ropes(JsonReader& reader, Architecture& a, const std::string& where) {
  const double theta = positive(reader, "rope_theta", 1e6);
  const double sliding_theta = positive(reader, "rope_local_base_freq", 1e4);
  nlohmann::json full = {{"rope_type", "default"}}, sliding = full;
  bool takes_scaling = true;
  if (reader.has("rope_parameters")) {
    JsonReader kinds(reader.at("rope_parameters"), where + ": rope_parameters");
    takes_scaling = kinds.has("full_attention");
    if (takes_scaling) full = kinds.at("full_attention");
    if (kinds.has("sliding_attention")) sliding = kinds.at("sliding_attention");
    kinds.refuse_unknown_keys();
  }
  std::string source = ": rope_parameters: full_attention";
  if (reader.has("rope_scaling")) {
    if (!takes_scaling || !full.is_object() || !reader.at("rope_scaling").is_object())
      reader.refuse("rope_scaling", "expected an object, and one of full_attention in rope_parameters");
    full.update(reader.at("rope_scaling"));
    source = ": rope_scaling";
  }
  a.rope = read_settings(full, a, where + source, theta);
  a.sliding_rope = read_settings(sliding, a, where + ": rope_parameters: sliding_attention", sliding_theta);
}

void read(JsonReader& reader, Architecture& a, const std::string& where) {
  read_gemma(reader, a,
             {.sizes = {262208, 9216, 131072, 4, 256, 26, 2304, 8},
              .sliding_pattern = reader.integer("sliding_window_pattern", 6, 1, kLargestCount),
              .logits_cap = 0});
  a.qk_norm = true;
  for (const char* unused : {"attn_logit_softcapping", "_sliding_window_pattern"}) reader.ignore(unused);
  read_ropes(reader, a, where);
}

nlohmann::json rope_config(const RopeOptions& rope) {
  nlohmann::json config = rope_settings(rope);
  config["rope_theta"] = rope.theta;
  return config;
}

/// The number of layers after which one does not slide, if layer_types are such a pattern.
std::optional<std::int64_t> pattern_of(const Architecture& a) {
  const auto first = std::ranges::find(a.slides, false);
  const std::int64_t pattern = first - a.slides.begin() + 1;
  for (std::int64_t layer = 0; layer < a.layers; ++layer)
    if (nth(a.slides, layer) == ((layer + 1) % pattern == 0)) return {};
  return pattern;
}

/// In the spelling of transformers 5, and in that of transformers 4, which knows no scaling of layers that
/// slide.
nlohmann::json write(const Architecture& a) {
  nlohmann::json config = gemma_config(a);
  config["rope_parameters"] = {{"full_attention", rope_config(a.rope)},
                               {"sliding_attention", rope_config(*a.sliding_rope)}};
  config["rope_local_base_freq"] = a.sliding_rope->theta;
  if (const auto pattern = pattern_of(a)) config["sliding_window_pattern"] = *pattern;
  return config;
}

UnitBuilder block(const Architecture& a, std::int64_t layer) {
  return gemma_block(a, layer, {attention_shape(a), gemma_kind_of_layer(a, layer), gemma_norm(a)});
}

std::vector<Rotation> rotations(const Architecture& a) {
  return {{a.head_dimension, a.rope}, {a.head_dimension, *a.sliding_rope}};
}

}  // namespace

const ArchitectureRules kGemma3 = {.model_type = "gemma3_text",
                                   .hf_class = "Gemma3ForCausalLM",
                                   .read = read,
                                   .write = write,
                                   .embedding = token_embedding,
                                   .block = block,
                                   .head = gemma_head,
                                   .kind_of_layer = gemma_kind_of_layer,
                                   .rotations = rotations};

}  // namespace strata
