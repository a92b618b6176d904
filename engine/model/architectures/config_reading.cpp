#include "engine/model/architectures/config_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/excerpt.h"
#include "base/nth.h"
#include "engine/model/architectures/rotary.h"

namespace strata {
namespace {

const std::string kOriginal = "original_max_position_embeddings";

/// The number beside the settings stands over that among them.
std::int64_t read_original_positions(JsonReader& settings, const Architecture& a,
                                     const RopeDefaults& defaults, std::int64_t minimum) {
  const std::int64_t among = settings.integer(kOriginal, a.max_positions, minimum, kLargestVocabulary);
  return defaults.original_max_positions.value_or(among);
}

RopeOptions::Llama3 read_llama3_rope(JsonReader& settings, std::int64_t original) {
  RopeOptions::Llama3 llama3{};
  llama3.factor = positive(settings, "factor", {});
  llama3.low_frequency_factor = positive(settings, "low_freq_factor", {});
  llama3.high_frequency_factor = positive(settings, "high_freq_factor", {});
  if (llama3.high_frequency_factor <= llama3.low_frequency_factor) {
    settings.refuse("high_freq_factor", "expected more than low_freq_factor");
  }
  llama3.original_max_positions = original;
  return llama3;
}

/// The first columns of each head are rotated, an even number of them.
double read_rotated_share(JsonReader& reader, const Architecture& a, double fallback) {
  const double share = reader.number("partial_rotary_factor", fallback);
  const std::int64_t columns = rotated_columns({a.head_dimension, {.rotated_share = share}});
  if (!(share > 0) || share > 1 || columns < 2 || columns % 2 != 0)
    reader.refuse(
        "partial_rotary_factor",
        fmt::format("expected a number up to 1 that makes an even number of columns of each head's {}",
                    a.head_dimension));
  return share;
}

/// How many times longer sequences may be than those of the first training.
double read_stretch(JsonReader& settings, const Architecture& a, std::int64_t original) {
  return settings.has("factor") ? positive(settings, "factor", {})
                                : static_cast<double>(a.max_positions) / static_cast<double>(original);
}

/// Nothing if it changes no rotation.
std::optional<RopeOptions::LongRope> read_long_rope(JsonReader& settings, const Architecture& a,
                                                    std::int64_t columns, std::int64_t original) {
  RopeOptions::LongRope rope;
  rope.short_factors = settings.positive_numbers("short_factor", columns / 2);
  rope.long_factors = settings.positive_numbers("long_factor", columns / 2);
  rope.original_max_positions = original;
  const double factor = read_stretch(settings, a, original);
  const double from_factor =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
  rope.attention_factor =
      settings.has("attention_factor") ? positive(settings, "attention_factor", {}) : from_factor;
  const auto ones = sized<std::vector<double>>(columns / 2, 1.0);
  if (rope.short_factors == ones && rope.long_factors == ones && rope.attention_factor == 1) return {};
  return rope;
}

/// Nothing if it is absent, null or 0.
std::optional<double> number_if_any(JsonReader& settings, const std::string& key) {
  const double number = settings.has(key) ? settings.number(key, {}) : 0;
  if (number < 0) settings.refuse(key, "expected a positive number");
  return number == 0 ? std::optional<double>() : number;
}

RopeOptions::Yarn read_yarn(JsonReader& settings, const Architecture& a, std::int64_t original,
                            double theta) {
  if (theta == 1) settings.fail("rope_theta is 1; YaRN takes logarithms to this base");
  if (!settings.has("factor") && !settings.is_null("factor")) positive(settings, "factor", {});
  RopeOptions::Yarn yarn{};
  yarn.original_max_positions = original;
  yarn.factor = read_stretch(settings, a, original);
  const auto scale = [&](double weight) {
    return yarn.factor <= 1 ? 1 : 0.1 * weight * std::log(yarn.factor) + 1;
  };
  const std::optional<double> weight = number_if_any(settings, "mscale");
  const std::optional<double> weight_of_all = number_if_any(settings, "mscale_all_dim");
  yarn.attention_factor = weight && weight_of_all ? scale(*weight) / scale(*weight_of_all) : scale(1);
  if (settings.has("attention_factor")) yarn.attention_factor = positive(settings, "attention_factor", {});
  yarn.fast_rotations = number_if_any(settings, "beta_fast").value_or(32);
  yarn.slow_rotations = number_if_any(settings, "beta_slow").value_or(1);
  yarn.truncates = !settings.is_null("truncate") && settings.boolean("truncate", true);
  return yarn;
}

/// The spelling before transformers 5, which later versions read too.
nlohmann::json rope_scaling(const RopeOptions& rope) {
  nlohmann::json scaling = rope_settings(rope);
  return scaling["rope_type"] == "default" ? nlohmann::json() : scaling;
}

}  // namespace

void require_plain(JsonReader& reader, const std::string& key, bool plain) {
  if (reader.boolean(key, plain) != plain) reader.refuse(key, fmt::format("supported: {}", plain));
}

void require_empty(JsonReader& reader, const std::string& key, const std::string& expected) {
  if (reader.has(key) && !reader.at(key).empty()) reader.refuse(key, expected);
}

void require_activation(JsonReader& reader, const std::string& key, const std::string& fallback,
                        const std::string& alias) {
  const std::string activation = reader.text(key, fallback);
  if (activation != fallback && activation != alias) {
    reader.refuse(key, fmt::format("supported: \"{}\" (and its other name \"{}\")", fallback, alias));
  }
}

double positive(JsonReader& reader, const std::string& key, std::optional<double> fallback) {
  const double value = reader.number(key, fallback);
  if (!(value > 0)) reader.refuse(key, "expected a positive number");
  return value;
}

std::int64_t integer_by_either_name(JsonReader& reader, const std::string& key, const std::string& other,
                                    std::int64_t fallback, std::int64_t minimum, std::int64_t maximum) {
  const bool has_key = reader.has(key) || reader.is_null(key);
  const bool has_other = reader.has(other) || reader.is_null(other);
  if (has_key && has_other && reader.at(key) != reader.at(other)) {
    reader.refuse(key, fmt::format("but {}, its other name, is {}; keep one of them", other,
                                   json_excerpt(reader.at(other))));
  }
  return reader.integer(has_other && !has_key ? other : key, fallback, minimum, maximum);
}

nlohmann::json rope_settings(const RopeOptions& rope) {
  if (rope.long_rope) {
    return {{"rope_type", "longrope"},
            {"short_factor", rope.long_rope->short_factors},
            {"long_factor", rope.long_rope->long_factors},
            {"attention_factor", rope.long_rope->attention_factor},
            {kOriginal, rope.long_rope->original_max_positions}};
  }
  if (rope.yarn) {
    return {{"rope_type", "yarn"},
            {"factor", rope.yarn->factor},
            {"attention_factor", rope.yarn->attention_factor},
            {"beta_fast", rope.yarn->fast_rotations},
            {"beta_slow", rope.yarn->slow_rotations},
            {"truncate", rope.yarn->truncates},
            {kOriginal, rope.yarn->original_max_positions}};
  }
  if (rope.llama3) {
    return {{"rope_type", "llama3"},
            {"factor", rope.llama3->factor},
            {"low_freq_factor", rope.llama3->low_frequency_factor},
            {"high_freq_factor", rope.llama3->high_frequency_factor},
            {kOriginal, rope.llama3->original_max_positions}};
  }
  if (rope.dynamic) return {{"rope_type", "dynamic"}, {"factor", rope.dynamic->factor}};
  if (rope.linear_factor != 1) return {{"rope_type", "linear"}, {"factor", rope.linear_factor}};
  return {{"rope_type", "default"}};
}

RopeOptions read_rope_settings(JsonReader& settings, const Architecture& a, const RopeDefaults& defaults) {
  RopeOptions rope{.theta = positive(settings, "rope_theta", defaults.theta)};
  const std::string old_type = settings.text("type", settings.has("rope_type") ? "" : "default");
  const std::string type = settings.text("rope_type", old_type);
  if (!old_type.empty() && type != old_type)
    settings.refuse("type", "transformers goes by rope_type, \"" + type + "\" here; say there what is meant");
  const auto original = [&] { return read_original_positions(settings, a, defaults, 1); };
  const bool is_phi3 = a.model_type == "phi3";
  rope.rotated_share = defaults.rotated_share;
  if (is_phi3) {
    rope.rotated_share = read_rotated_share(settings, a, rope.rotated_share);
  } else if (settings.number("partial_rotary_factor", 1.0) != 1.0) {
    settings.refuse("partial_rotary_factor", "supported: 1");
  }
  if (type == "longrope" && defaults.may_differ_by_length) {
    // Its logarithm divides.
    const std::int64_t positions = read_original_positions(settings, a, defaults, 2);
    rope.long_rope = read_long_rope(settings, a, rotated_columns({a.head_dimension, rope}), positions);
  } else if (type == "llama3" && !is_phi3) {
    rope.llama3 = read_llama3_rope(settings, original());
  } else if (type == "yarn" && !is_phi3) {
    rope.yarn = read_yarn(settings, a, original(), rope.theta);
  } else if (type == "linear" && !is_phi3) {
    rope.linear_factor = positive(settings, "factor", {});
  } else if (type == "dynamic" && !is_phi3) {
    if (a.head_dimension <= 2) settings.fail("rope type dynamic needs a head dimension above 2");
    rope.dynamic = RopeOptions::Dynamic{positive(settings, "factor", {}), a.max_positions};
  } else if (type != "default") {
    const std::string others = is_phi3 ? "\"longrope\""
                               : defaults.may_differ_by_length
                                   ? "\"linear\", \"dynamic\", \"yarn\", \"llama3\", \"longrope\""
                                   : "\"linear\", \"dynamic\", \"yarn\", \"llama3\"";
    settings.refuse(settings.has("rope_type") ? "rope_type" : "type", "supported: \"default\", " + others);
  }
  return rope;
}

RopeOptions read_rope(JsonReader& reader, const Architecture& a, const std::string& where, double theta) {
  RopeDefaults defaults{.theta = positive(reader, "rope_theta", theta)};
  const bool is_phi3 = a.model_type == "phi3";
  // Only scaled frequencies depend on it. Phi3Config has one of its own.
  if (reader.has(kOriginal) || (is_phi3 && !reader.is_null(kOriginal)))
    defaults.original_max_positions = reader.integer(kOriginal, 4096, 2, kLargestVocabulary);
  if (is_phi3) {
    defaults.rotated_share = read_rotated_share(reader, a, 1);
  } else if (reader.number("partial_rotary_factor", 1.0) != 1.0) {
    reader.refuse("partial_rotary_factor", "supported: 1");
  }
  const bool has_parameters = reader.has("rope_parameters");
  const bool has_scaling = reader.has("rope_scaling") && !reader.at("rope_scaling").empty();
  if (!has_parameters && !has_scaling)
    return {.theta = defaults.theta, .rotated_share = defaults.rotated_share};
  const std::string key = has_scaling ? "rope_scaling" : "rope_parameters";
  JsonReader settings(reader.at(key), fmt::format("{}: {}", where, key));
  for (const std::string layer_type : {"full_attention", "sliding_attention"}) {
    if (settings.has(layer_type) || settings.is_null(layer_type))
      settings.refuse(layer_type, "rope settings by layer type are not supported");
  }
  const RopeOptions rope = read_rope_settings(settings, a, defaults);
  if (reader.is_null(kOriginal) && (rope.llama3 || rope.yarn || rope.long_rope))
    reader.refuse(kOriginal, "the rope settings depend on it: give a number, or leave the key out");
  if (a.model_type == "mixtral" && !reader.has("head_dim") && (rope.dynamic || rope.yarn || rope.long_rope))
    reader.fail(
        fmt::format("transformers computes this rope type with head_dim, which is absent; set it to {}",
                    a.head_dimension));
  settings.refuse_unknown_keys();
  return rope;
}

void read_sizes(JsonReader& reader, Architecture& a, const SizeDefaults& defaults) {
  a.layers = reader.integer("num_hidden_layers", defaults.layers, 1, kLargestCount);
  a.hidden = reader.integer("hidden_size", defaults.hidden, 1, kLargestWidth);
  a.heads = reader.integer("num_attention_heads", defaults.heads, 1, kLargestWidth);
  const bool is_gemma = a.model_type == "gemma2" || a.model_type == "gemma3_text";
  a.kv_heads =
      reader.is_null("num_key_value_heads") && !is_gemma
          ? a.heads
          : reader.integer("num_key_value_heads", defaults.kv_heads.value_or(a.heads), 1, kLargestWidth);
  if (a.heads % a.kv_heads != 0) {
    reader.fail(fmt::format(
        "num_attention_heads {} is not a multiple of num_key_value_heads {}{}", a.heads, a.kv_heads,
        reader.has("num_key_value_heads") ? "" : ", its default; set num_key_value_heads"));
  }
  // LlamaConfig and Gemma's refuse what does not divide even if head_dim is given, so that a file of
  // ours must not have it.
  const bool needs_division =
      a.model_type == "llama" || is_gemma || (!defaults.head_dimension && !reader.has("head_dim"));
  if (needs_division && a.hidden % a.heads != 0) {
    reader.fail(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", a.hidden, a.heads));
  }
  a.head_dimension = defaults.head_dimension.value_or(std::max<std::int64_t>(a.hidden / a.heads, 1));
  const bool null_is_default = a.model_type == "llama" || a.model_type == "mistral" ||
                               a.model_type == "mixtral";  // transformers fails elsewhere
  if (!null_is_default || !reader.is_null("head_dim")) {
    a.head_dimension = reader.integer("head_dim", a.head_dimension, 1, kLargestWidth);
  }
  if (a.head_dimension % 2 != 0) {
    reader.fail(
        fmt::format("the head dimension {} is odd; rotary embeddings need an even one", a.head_dimension));
  }
  if (a.query_columns() > kLargestWidth) {
    reader.fail(
        fmt::format("{} heads of dimension {} are wider than {}", a.heads, a.head_dimension, kLargestWidth));
  }
  a.intermediate = reader.integer("intermediate_size", defaults.intermediate, 1, 4 * kLargestWidth);
  a.vocabulary = reader.integer("vocab_size", defaults.vocabulary, 1, kLargestVocabulary);
  a.max_positions = reader.integer("max_position_embeddings", defaults.max_positions, 1, kLargestVocabulary);
}

std::optional<std::int64_t> read_padding_token(JsonReader& reader, const Architecture& a,
                                               std::optional<std::int64_t> fallback) {
  if (reader.is_null("pad_token_id")) return {};
  if (!reader.has("pad_token_id")) {
    if (fallback && *fallback >= a.vocabulary) {
      reader.fail(fmt::format(
          "pad_token_id is absent, and {}, its default, is not in the vocabulary of {}; set pad_token_id, to "
          "null if no token is padding",
          *fallback, a.vocabulary));
    }
    return fallback;
  }
  const std::int64_t token = reader.integer("pad_token_id", {}, -a.vocabulary, a.vocabulary - 1);
  return token < 0 ? token + a.vocabulary : token;
}

void read_experts(JsonReader& reader, Architecture& a, const ExpertDefaults& defaults) {
  // transformers 5 writes num_local_experts, files of the hub have either.
  a.experts = integer_by_either_name(reader, "num_experts", "num_local_experts", defaults.experts,
                                     defaults.fewest, kLargestCount);
  a.experts_per_token = reader.integer("num_experts_per_tok", defaults.per_token, 1, kLargestCount);
  if (a.experts > 0 && a.experts_per_token > a.experts) {
    reader.fail(
        fmt::format("num_experts_per_tok {} is more than {} experts{}", a.experts_per_token, a.experts,
                    reader.has("num_experts_per_tok") ? "" : ", its default; set num_experts_per_tok"));
  }
  if (a.experts * a.layers > kLargestExperts)
    reader.fail(fmt::format("{} layers of {} experts are more than {} experts", a.layers, a.experts,
                            kLargestExperts));
}

void read_balance(JsonReader& reader, Architecture& a) {
  if (!reader.boolean("output_router_logits", false)) return reader.ignore("router_aux_loss_coef");
  if (a.expert_layers() == 0)
    reader.refuse("output_router_logits",
                  "no layer has experts, and transformers then computes no loss; set it to false");
  a.balance_coefficient = reader.number("router_aux_loss_coef", 0.001);
  if (!(a.balance_coefficient >= 0))
    reader.refuse("router_aux_loss_coef", "expected a number that is not negative");
}

void write_balance(nlohmann::json& config, const Architecture& a) {
  config["output_router_logits"] = a.balance_coefficient != 0;
  if (a.balance_coefficient != 0) config["router_aux_loss_coef"] = a.balance_coefficient;
}

std::vector<bool> read_layer_types(JsonReader& reader, const Architecture& a, std::int64_t pattern) {
  std::vector<bool> slides;
  if (!reader.has("layer_types")) {
    for (std::int64_t layer = 0; layer < a.layers; ++layer) slides.push_back((layer + 1) % pattern != 0);
    return slides;
  }
  const nlohmann::json& types = reader.at("layer_types");
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") break;
    slides.push_back(type == "sliding_attention");
  }
  if (!types.is_array() || std::ssize(slides) != a.layers || std::ssize(types) != a.layers) {
    reader.refuse(
        "layer_types",
        fmt::format("expected \"full_attention\" or \"sliding_attention\" for each of {} layers", a.layers));
  }
  return slides;
}

nlohmann::json llama_config(const Architecture& a) {
  nlohmann::json config = {{"num_hidden_layers", a.layers},
                           {"hidden_size", a.hidden},
                           {"num_attention_heads", a.heads},
                           {"num_key_value_heads", a.kv_heads},
                           {"head_dim", a.head_dimension},
                           {"intermediate_size", a.intermediate},
                           {"max_position_embeddings", a.max_positions},
                           {"rms_norm_eps", a.norm_epsilon},
                           {"hidden_act", "silu"},
                           {"rope_theta", a.rope.theta},
                           {"rope_scaling", rope_scaling(a.rope)},
                           {"pad_token_id", nullptr}};  // some have another default
  if (a.padding_token) config["pad_token_id"] = *a.padding_token;
  return config;
}

}  // namespace strata
