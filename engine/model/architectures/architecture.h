// What a model is: the family's options and sizes, in HF config.json's meaning. Read from a config.json or
// from the run file's model.config (same keys), checked once; everything after this works on these plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace strata {

/// Frequencies of rotary embeddings. At most one of the ways in which HF's rope_scaling changes them is
/// given.
struct RopeOptions {
  double theta = 10000;
  struct Llama3 {
    double factor, low_frequency_factor, high_frequency_factor;
    std::int64_t original_max_positions;
    friend bool operator==(const Llama3&, const Llama3&) = default;
  };
  std::optional<Llama3> llama3 = {};
  double linear_factor = 1;  ///< frequencies are divided by it
  /// Each frequency is divided by a factor of its own: by others in sequences that are longer than those that
  /// the model was first trained on. As in HF's rope_scaling {rope_type: longrope}.
  struct LongRope {
    std::vector<double> short_factors, long_factors;
    double attention_factor;  ///< on cosines and sines
    std::int64_t original_max_positions;
    friend bool operator==(const LongRope&, const LongRope&) = default;
  };
  std::optional<LongRope> long_rope = {};
  /// Frequencies that turn often within the original positions stay, those that turn seldom are divided by
  /// the factor, and those between are blended (Peng et al. 2023). As in HF's {rope_type: yarn}.
  struct Yarn {
    double factor;
    double attention_factor;  ///< on cosines and sines
    double fast_rotations,
        slow_rotations;  ///< within the original positions: where the blend begins and ends
    bool truncates;      ///< both ends of the blend are whole frequencies
    std::int64_t original_max_positions;
    friend bool operator==(const Yarn&, const Yarn&) = default;
  };
  std::optional<Yarn> yarn = {};
  /// Sequences longer than the model's positions have a theta of their own, by their length. As in HF's
  /// {rope_type: dynamic}.
  struct Dynamic {
    double factor;
    std::int64_t max_positions;
    friend bool operator==(const Dynamic&, const Dynamic&) = default;
  };
  std::optional<Dynamic> dynamic = {};
  double rotated_share = 1;  ///< of a head's columns; those behind them stay as they are
  friend bool operator==(const RopeOptions&, const RopeOptions&) = default;
};

/// How tensors are named.
enum class Family : std::uint8_t { gpt2, llama };

struct Architecture {
  std::string model_type;  ///< as in config.json
  Family family = Family::gpt2;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dimension = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  std::int64_t window = 0;  ///< sliding attention window, 0: none
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool tied_head = false;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;  ///< GPT-2 has biases everywhere
  bool qk_norm = false;                                       ///< Qwen3
  double query_scale = 0;                                     ///< factor on q·k; 0: 1 / sqrt(head_dimension)
  double embedding_scale = 1, residual_scale = 1;             ///< factors
  double logits_divisor = 1;
  double scores_cap = 0, logits_cap = 0;  ///< soft caps on q·k, scaled, and on logits; 0: none
  std::vector<bool> slides = {};  ///< by layer, whether its attention has the window; empty: all or none
  std::optional<RopeOptions> sliding_rope = {};  ///< of layers that slide, if it is another
  std::int64_t experts = 0, experts_per_token = 0, expert_intermediate = 0;  ///< 0: no layer has experts
  double balance_coefficient = 0;      ///< of the auxiliary loss of routing; 0: none
  bool normalises_experts = true;      ///< the weights of a token's experts sum to 1
  std::vector<bool> has_experts = {};  ///< by layer; empty: all or none
  RopeOptions rope;                    ///< llama family
  /// Probabilities: of what the embedding makes, and of what each branch adds to the residual stream. The
  /// model that is read has none; a run may ask for the config's (dropout.h).
  double embedding_dropout = 0, residual_dropout = 0;
  /// Llama family: the embedding's row of this token gets no gradient from the input, as with torch's
  /// padding_idx. A tied head still gives that row its own.
  std::optional<std::int64_t> padding_token;

  std::int64_t expert_layers() const;
  std::int64_t query_columns() const { return heads * head_dimension; }
  std::int64_t kv_columns() const { return kv_heads * head_dimension; }
  friend bool operator==(const Architecture&, const Architecture&) = default;
};

/// Reads HF's keys (model_type, num_hidden_layers, n_embd, …) with HF's defaults. `where` names the source in
/// errors. Throws ConfigError for a missing or impossible value. Throws it for every option that would change
/// the computation and is not supported, such as another activation. Throws it, too, for a key that is not
/// known to change nothing (config_keys.h). Dropout is left out: dropout.h.
Architecture parse_architecture(const nlohmann::json& config, const std::string& where);

/// The config.json that transformers reads back to the same model.
nlohmann::json to_hf_config(const Architecture& architecture);

}  // namespace strata
