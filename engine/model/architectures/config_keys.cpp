#include "engine/model/architectures/config_keys.h"

namespace strata {
namespace {

const InertKeys kOfAll[] = {
    {"where the file comes from, and the classes that read it",
     {"_name_or_path", "name_or_path", "_commit_hash", "_from_model_config", "architectures", "auto_map",
      "finetuning_task", "is_llama_config", "tokenizer_class", "transformers.js_config",
      "transformers_version", "unsloth_fixed", "unsloth_version"}},
    {"how weights are stored: Strata reads any dtype, and train.precision says how it computes",
     {"dtype", "torch_dtype", "use_bfloat16"}},
    {"which of several equal computations transformers performs",
     {"_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
      "_flash_attn_2_enabled", "attn_implementation", "chunk_size_feed_forward", "gradient_checkpointing",
      "pretraining_tp"}},
    {"what a forward pass returns besides the logits",
     {"output_attentions", "output_hidden_states", "output_past", "return_dict", "use_cache"}},
    {"special tokens: data that is already tokens needs none",
     {"bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id", "prefix"}},
    {"the generation of text",
     {"assistant_confidence_threshold",
      "assistant_lookbehind",
      "bad_words_ids",
      "begin_suppress_tokens",
      "cache_implementation",
      "diversity_penalty",
      "do_sample",
      "early_stopping",
      "encoder_no_repeat_ngram_size",
      "encoder_repetition_penalty",
      "epsilon_cutoff",
      "eta_cutoff",
      "exponential_decay_length_penalty",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "length_penalty",
      "max_length",
      "min_length",
      "no_repeat_ngram_size",
      "num_assistant_tokens",
      "num_assistant_tokens_schedule",
      "num_beam_groups",
      "num_beams",
      "num_return_sequences",
      "output_scores",
      "remove_invalid_values",
      "repetition_penalty",
      "return_dict_in_generate",
      "suppress_tokens",
      "target_lookbehind",
      "task_specific_params",
      "temperature",
      "top_k",
      "top_p",
      "typical_p"}},
    {"classifiers, which have heads of their own",
     {"_num_labels", "classifier_dropout", "id2label", "label2id", "num_labels", "problem_type"}},
    {"encoders and decoders that attend to them, which are refused",
     {"cross_attention_hidden_size", "is_decoder", "tie_encoder_decoder"}},
    {"other frameworks", {"tf_legacy_loss", "xla_device"}},
    {"the tokenizer's length limit", {"max_sequence_length", "model_max_length"}},
};

const InertKeys kOfGpt2[] = {
    {"GPT2DoubleHeadsModel's second head",
     {"summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
      "summary_use_proj"}},
    {"OpenAI's first files; n_positions counts", {"n_ctx", "n_special", "predict_special_tokens"}},
    {"special tokens: GPT-2's embedding has no padding row", {"pad_token_id"}},
};

}  // namespace

std::span<const InertKeys> inert_keys() {
  return kOfAll;
}

std::span<const InertKeys> inert_keys(Family family) {
  return family == Family::gpt2 ? std::span<const InertKeys>(kOfGpt2) : std::span<const InertKeys>();
}

}  // namespace strata
