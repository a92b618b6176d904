// What readers of config.json share: limits of sizes, and keys that several architectures have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/config/json_reader.h"
#include "engine/model/architectures/architecture.h"

namespace strata {

/// Sizes up to these keep every product of three of them inside 64 bits; no real model comes near.
constexpr std::int64_t kLargestWidth = std::int64_t{1} << 20;
constexpr std::int64_t kLargestCount = 100'000;
constexpr std::int64_t kLargestExperts = 1'000'000;  // of all layers: each has tensors with names
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 30;  // kernels mark the absence of a row by it

/// What a config class of transformers 5 assumes if a key is absent.
struct SizeDefaults {
  std::int64_t vocabulary, intermediate, max_positions;
  std::optional<std::int64_t> kv_heads, head_dimension;  ///< nothing: as many as heads; hidden / heads
  std::int64_t layers = 32, hidden = 4096, heads = 32;
};

/// Layers, widths, heads, vocabulary and positions, by Llama's keys.
void read_sizes(JsonReader& reader, Architecture& a, const SizeDefaults& defaults);

/// An option that must have its plain value, because anything else is another computation.
void require_plain(JsonReader& reader, const std::string& key, bool plain);
/// An option that is off if it is null or empty.
void require_empty(JsonReader& reader, const std::string& key, const std::string& expected);
void require_activation(JsonReader& reader, const std::string& key, const std::string& fallback,
                        const std::string& alias);
double positive(JsonReader& reader, const std::string& key, std::optional<double> fallback);

/// A number that transformers' attribute_map gives two names: the keys may not differ.
std::int64_t integer_by_either_name(JsonReader& reader, const std::string& key, const std::string& other,
                                    std::int64_t fallback, std::int64_t minimum, std::int64_t maximum);

/// What settings of rope do not say, and what stands beside them.
struct RopeDefaults {
  double theta = 10000;
  double rotated_share = 1;
  std::optional<std::int64_t> original_max_positions = {};  ///< stands over that among the settings
  bool may_differ_by_length = true;                         ///< short documents from long ones
};

/// One object of settings, in either spelling of its type. Unknown keys are left to the caller.
RopeOptions read_rope_settings(JsonReader& settings, const Architecture& a, const RopeDefaults& defaults);
/// Settings that read_rope_settings() reads back, without a theta.
nlohmann::json rope_settings(const RopeOptions& rope);

/// Rope settings live in rope_parameters (transformers 5), or in rope_scaling and rope_theta (before). If
/// both are given, transformers lets rope_scaling win, a theta inside win over one outside, and the original
/// number of positions outside over that inside.
RopeOptions read_rope(JsonReader& reader, const Architecture& a, const std::string& where,
                      double theta = 10000);

/// The embedding's padding_idx in transformers, which counts a negative one from the table's end; `fallback`
/// if the key is absent, which must be in the vocabulary then.
std::optional<std::int64_t> read_padding_token(JsonReader& reader, const Architecture& a,
                                               std::optional<std::int64_t> fallback = {});

/// Whether each layer's attention slides, from layer_types; if that is absent or null, all but each
/// `pattern`th layer do.
std::vector<bool> read_layer_types(JsonReader& reader, const Architecture& a, std::int64_t pattern);

struct ExpertDefaults {
  std::int64_t experts, per_token;
  std::int64_t fewest = 1;
};

/// The number of experts and how many a token goes to.
void read_experts(JsonReader& reader, Architecture& a, const ExpertDefaults& defaults);
/// The auxiliary loss of routing, which output_router_logits asks for. REQUIRES: `a` says which layers have
/// experts.
void read_balance(JsonReader& reader, Architecture& a);
void write_balance(nlohmann::json& config, const Architecture& a);

/// The keys of Llama's file, but for those of one architecture alone.
nlohmann::json llama_config(const Architecture& a);

}  // namespace strata
