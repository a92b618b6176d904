#include "engine/model/architectures/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/model/architectures/architecture_rules.h"
#include "engine/model/architectures/config_keys.h"
#include "engine/model/architectures/config_reading.h"
#include "engine/model/architectures/dropout.h"

namespace strata {
namespace {

void refuse_common_options(JsonReader& reader) {
  if (reader.has("quantization_config")) {
    reader.refuse("quantization_config",
                  "quantized weights are not supported; use the folder with full-precision weights");
  }
  require_plain(reader, "is_causal", true);
  require_plain(reader, "is_encoder_decoder", false);
  require_plain(reader, "add_cross_attention", false);
  require_plain(reader, "torchscript", false);  // transformers 4 then left a tied head untied
  require_plain(reader, "rope_interleaved", false);
  require_plain(reader, "use_mrope", false);
  require_empty(reader, "pruned_heads", "pruned heads are not supported");
  require_empty(reader, "per_layer_config", "layers that differ are not supported");
  require_empty(reader, "fusion_config", "fused layers are not supported");
}

/// What remains is known to change nothing, or refused.
void refuse_unknown_keys(JsonReader& reader, Family family) {
  for (const auto groups : {inert_keys(), inert_keys(family)}) {
    for (const InertKeys& group : groups) {
      for (const std::string_view key : group.keys) reader.ignore(key);
    }
  }
  reader.refuse_unknown_keys();
}

double initializer_range(JsonReader& reader, double fallback) {
  const double value = reader.number("initializer_range", fallback);
  if (!(value >= 0)) reader.refuse("initializer_range", "expected a number that is not negative");
  return value;
}

}  // namespace

std::int64_t Architecture::expert_layers() const {
  if (experts == 0) return 0;
  return has_experts.empty() ? layers : std::ranges::count(has_experts, true);
}

Architecture parse_architecture(const nlohmann::json& config, const std::string& where) {
  JsonReader reader(config, where);
  Architecture a;
  a.model_type = reader.text("model_type", {});
  const auto all = all_architectures();
  if (std::ranges::find(all, a.model_type, &ArchitectureRules::model_type) == all.end()) {
    std::vector<std::string_view> names;
    for (const ArchitectureRules* rules : all) names.push_back(rules->model_type);
    reader.refuse("model_type", fmt::format("supported: {}", fmt::join(names, ", ")));
  }
  rules_of(a).read(reader, a, where);
  a.initializer_range = initializer_range(reader, a.initializer_range);
  check_dropout(reader, a.model_type);
  refuse_common_options(reader);
  refuse_unknown_keys(reader, a.family);
  return a;
}

nlohmann::json to_hf_config(const Architecture& architecture) {
  const ArchitectureRules& rules = rules_of(architecture);
  nlohmann::json config = rules.write(architecture);
  config["architectures"] = {rules.hf_class};
  config["model_type"] = architecture.model_type;
  config["vocab_size"] = architecture.vocabulary;
  config["initializer_range"] = architecture.initializer_range;
  config["tie_word_embeddings"] = architecture.tied_head;
  // A vocabulary of our own has no special tokens; HF's default ids might not even be inside it.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  return config;
}

}  // namespace strata
