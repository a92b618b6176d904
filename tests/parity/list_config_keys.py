"""Writes ../model/config_keys.json: what transformers makes of every key that a config.json may have (see README.md).

    .venv/bin/python tests/parity/list_config_keys.py          # all, or the families given

A tiny model of each family is trained for one step with every key at many values, and with several keys at a time. Its loss
and gradients are then the `same` as without the key, or the value `changes` them, or transformers has `rejected` the file.
"""
import dataclasses
import inspect
import json
import pathlib
import re
import shutil
import sys
import tempfile
import warnings

import torch
import transformers
from transformers import (AutoConfig, AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, GraniteConfig, LlamaConfig,
                          MistralConfig, MixtralConfig, Olmo2Config, Phi3Config, Qwen2Config, Qwen3Config, Qwen3MoeConfig,
                          Starcoder2Config)
from transformers import configuration_utils, masking_utils, modeling_rope_utils
from transformers.generation.configuration_utils import GenerationConfig
from transformers.models.gemma2 import configuration_gemma2, modeling_gemma2
from transformers.models.gemma3 import configuration_gemma3, modeling_gemma3
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.granite import modeling_granite
from transformers.models.llama import modeling_llama
from transformers.models.ministral import modeling_ministral
from transformers.models.mistral import modeling_mistral
from transformers.models.mixtral import modeling_mixtral
from transformers.models.olmo2 import modeling_olmo2
from transformers.models.phi3 import configuration_phi3, modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3_moe import modeling_qwen3_moe
from transformers.models.starcoder2 import modeling_starcoder2
from transformers.utils import logging

OUTPUT = pathlib.Path(__file__).parent.parent / "model" / "config_keys.json"
SOURCES = [configuration_utils, masking_utils, modeling_rope_utils, modeling_gpt2, modeling_llama, modeling_ministral,
           modeling_mistral, modeling_qwen2, modeling_qwen3, modeling_olmo2, configuration_phi3, modeling_phi3, modeling_granite, modeling_starcoder2,
           configuration_gemma2, modeling_gemma2, configuration_gemma3, modeling_gemma3]
EXPERT_SOURCES = [modeling_mixtral, modeling_qwen3_moe]
VOCABULARY, SEQUENCE, LAYERS = 29, 12, 2

LLAMA_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": LAYERS,
               "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
FAMILIES = {
    "gpt2": (GPT2Config, {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": LAYERS, "n_head": 2, "n_positions": 32,
                          "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    "llama": (LlamaConfig, LLAMA_SIZES),
    "mistral": (MistralConfig, LLAMA_SIZES),
    "qwen2": (Qwen2Config, LLAMA_SIZES),
    "qwen3": (Qwen3Config, {**LLAMA_SIZES, "head_dim": 4}),
    "olmo2": (Olmo2Config, LLAMA_SIZES),
    "phi3": (Phi3Config, {**LLAMA_SIZES, "pad_token_id": None}),
    "granite": (GraniteConfig, {**LLAMA_SIZES, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                                "residual_multiplier": 0.6, "logits_scaling": 2.5}),
    "starcoder2": (Starcoder2Config, LLAMA_SIZES),
    "gemma2": (Gemma2Config, {**LLAMA_SIZES, "head_dim": 4, "query_pre_attn_scalar": 10, "sliding_window": 4,
                              "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}),
    "gemma3_text": (Gemma3TextConfig, {**LLAMA_SIZES, "head_dim": 4, "query_pre_attn_scalar": 10, "sliding_window": 4,
                                       "sliding_window_pattern": 2}),
    "mixtral": (MixtralConfig, {**LLAMA_SIZES, "num_local_experts": 4, "num_experts_per_tok": 2}),
    # A layer without experts, and one with.
    "qwen3_moe": (Qwen3MoeConfig, {**LLAMA_SIZES, "moe_intermediate_size": 10, "num_experts": 4, "num_experts_per_tok": 2,
                                   "decoder_sparse_step": 2}),
}
WITH_EXPERTS = ["mixtral", "qwen3_moe"]

LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8}
ROPES = [{}, {"rope_type": "default"}, {"type": "default"}, {"rope_theta": 50.0}, {"rope_type": None},
         {"rope_type": "default", "rope_theta": None}, {"rope_type": "default", "rope_theta": 50},
         {"rope_type": "default", "factor": 2.0}, {"rope_type": "default", "partial_rotary_factor": 0.5},
         {"rope_type": "default", "partial_rotary_factor": 1.0}, {"rope_type": "default", "unheard_of": 3}, LLAMA3,
         {**LLAMA3, "type": "default"}, {**LLAMA3, "factor": None}, {**LLAMA3, "original_max_position_embeddings": None},
         {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0},
         {"type": "linear", "factor": 2.0}, {"rope_type": "yarn", "factor": 2.0},
         {"full_attention": {"rope_type": "default", "rope_theta": 50.0}},
         {"sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}, {"full_attention": None}, {"full_attention": {}},
         {"full_attention": {}, "sliding_attention": {}}, {"full_attention": {}, "sliding_attention": None},
         {"full_attention": {"rope_theta": 50}}, {"full_attention": {"rope_theta": None}},
         {"full_attention": {"rope_type": "linear", "factor": 2.0}}, {"full_attention": {"rope_type": "linear", "factor": 2}},
         {"full_attention": {"type": "linear", "factor": 2.0}}, {"full_attention": {"rope_type": "linear"}},
         {"full_attention": {"rope_type": "default", "type": "linear", "factor": 2.0}},
         {"full_attention": {"rope_type": "linear", "factor": 0.5}}, {"full_attention": {"rope_type": "linear", "factor": 1.0}},
         {"full_attention": {"rope_type": "default", "partial_rotary_factor": 0.5}}, {"full_attention": LLAMA3},
         {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}, {"full_attention": {"rope_type": "yarn", "factor": 2.0}},
         {"rope_type": "linear", "factor": 1.0}, {"rope_type": "linear"}, {"rope_type": "linear", "factor": 2},
         {"factor": 2.0}, {"type": "su", "short_factor": [1.0, 1.0], "long_factor": [1.0, 1.0]},
         {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}]
LINEAR = {"rope_type": "linear", "factor": 2.0}
THETAS = {"full_attention": {"rope_type": "default", "rope_theta": 50.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 70.0}}
FULL, SLIDING = ["full_attention"], ["sliding_attention"]
ANY_VALUES = [None, False, True, 2, 0.5, "x", {}]
VALUES = {
    "activation_function": ["gelu", "gelu_pytorch_tanh", "relu"],
    "attention_multiplier": [-0.5, 0],
    "embedding_multiplier": [1, -0.5],
    "hidden_act": ["swish", "gelu"],
    "hidden_activation": ["gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "silu"],
    "layer_types": [FULL * LAYERS, SLIDING * LAYERS, FULL + SLIDING, FULL],
    "logits_scaling": [-0.5, 1],
    "max_window_layers": [LAYERS],
    "pad_token_id": [0, -1, VOCABULARY - 1, VOCABULARY, -VOCABULARY, -VOCABULARY - 1],
    "fusion_config": [{"patch_embeddings": True}],
    "per_layer_config": [{"0": {"attention_dropout": 0.5}}, {"1": {"rms_norm_eps": 0.1}}, {"0": {"skip": ["mlp"]}}],
    "pruned_heads": [{"0": [1]}],
    "quantization_config": [{"quant_method": "bitsandbytes", "load_in_8bit": True}],
    "rope_parameters": ROPES,
    "rope_scaling": ROPES,
    "rope_local_base_freq": [50.0, 50, 10000.0],
    "rope_theta": [50.0, 50, 10000.0, 1000000],
    "partial_rotary_factor": [1.0],
    "query_pre_attn_scalar": [10, 10.0, 0, -4],
    "residual_multiplier": [1, -0.5],
    "sliding_window": [4, 11, SEQUENCE],
    "sliding_window_pattern": [1, 3, 6, -2],
}
# What only the families with experts are asked.
EXPERT_COUNTS = [0, 1, 3, 4, 5, -1]
EXPERT_VALUES = {
    "attention_bias": [],
    "decoder_sparse_step": [0, 1, 3, -1, -2],
    "mlp_only_layers": [[], [0], [1], [0, 1], [0, 0], [1, 0, 1], [2], [-1], [True], [1.0], ["x"], [None], 0, {"1": 0}],
    "moe_intermediate_size": [0, 9, 10, 10.0],
    "num_experts": EXPERT_COUNTS,
    "num_experts_per_tok": EXPERT_COUNTS,
    "num_local_experts": EXPERT_COUNTS,
    "output_router_logits": [0, 1],
    "router_aux_loss_coef": [0, 0.0, 0.001, -1.0],
    "router_jitter_noise": [0, 0.0, -0.5, 1],
    # In files of Qwen3-Coder and of other mixtures of experts.
    "mlp_bias": [], "n_shared_experts": [], "num_shared_experts": [], "qkv_bias": [], "shared_expert_intermediate_size": [0],
    "use_qk_norm": [],
}
# What older versions wrote, and what often stands in the hub's files.
OTHER_KEYS = """_attn_implementation_autoset _attn_implementation_internal _flash_attn_2_enabled _from_model_config
    _num_labels auto_map cache_implementation cross_attention_hidden_size decoder_start_token_id finetuning_task gradient_checkpointing
    is_decoder is_llama_config max_sequence_length model_max_length n_ctx n_special output_past predict_special_tokens
    prefix pretraining_tp rope_interleaved sep_token_id task_specific_params tf_legacy_loss tie_encoder_decoder
    tokenizer_class torchscript transformers.js_config unsloth_fixed unsloth_version use_bfloat16 use_mrope xla_device""".split()
WINDOW = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
OUTSIDE = {"original_max_position_embeddings": 16}
COMBINATIONS = [
    {**OUTSIDE, "rope_parameters": LLAMA3}, {**OUTSIDE, "rope_scaling": LLAMA3},
    {"original_max_position_embeddings": None, "rope_parameters": LLAMA3},
    {"rope_theta": 50.0, "rope_parameters": LLAMA3}, {"rope_theta": 50.0, "rope_parameters": {"rope_type": "default"}},
    {"rope_scaling": {"rope_type": "default", "rope_theta": 50.0}, "rope_parameters": LLAMA3},
    {"sliding_window": 4, "layer_types": FULL * LAYERS}, {"sliding_window": 4, "layer_types": SLIDING * LAYERS},
    {"sliding_window": 4, "layer_types": FULL + SLIDING}, {"sliding_window": None, "layer_types": FULL * LAYERS},
    {"sliding_window": 4, "layer_types": None}, {"sliding_window": 4, "head_dim": 4, "layer_types": FULL + SLIDING},
    {"sliding_window": 4, "head_dim": 4, "layer_types": SLIDING * LAYERS},
    WINDOW, {**WINDOW, "sliding_window": None}, {**WINDOW, "max_window_layers": LAYERS}, {**WINDOW, "max_window_layers": 1},
    {**WINDOW, "layer_types": FULL * LAYERS}, {**WINDOW, "layer_types": SLIDING * LAYERS},
    {**WINDOW, "layer_types": FULL + SLIDING}, {**WINDOW, "use_sliding_window": False, "layer_types": SLIDING * LAYERS},
    {**WINDOW, "sliding_window": None, "layer_types": SLIDING * LAYERS},
    {**WINDOW, "sliding_window": None, "layer_types": FULL * LAYERS},
    {"pad_token_id": 3, "tie_word_embeddings": True}, {"pad_token_id": -1, "tie_word_embeddings": False},
    {"is_causal": False, "sliding_window": 4},
    {"layer_types": FULL + SLIDING, "sliding_window_pattern": 3}, {"layer_types": SLIDING + FULL, "sliding_window_pattern": 1},
    {"layer_types": None, "sliding_window_pattern": 1}, {"layer_types": None, "_sliding_window_pattern": 1},
    {"sliding_window": None, "sliding_window_pattern": 1}, {"sliding_window": None, "layer_types": SLIDING + FULL},
    {"sliding_window": 3, "use_bidirectional_attention": True}, {"sliding_window": 4, "use_bidirectional_attention": None},
    {"attention_bias": True, "mlp_bias": True},
    {"rope_theta": 50.0, "rope_local_base_freq": 70.0}, {"rope_theta": 50.0, "rope_parameters": THETAS},
    {"rope_local_base_freq": 50.0, "rope_parameters": THETAS}, {"rope_scaling": LINEAR, "rope_parameters": THETAS},
    {"rope_scaling": {"rope_theta": 70.0}, "rope_parameters": THETAS}, {"rope_scaling": {}, "rope_parameters": THETAS},
    {"rope_scaling": LINEAR, "rope_parameters": {}}, {"rope_scaling": LINEAR, "rope_parameters": {"sliding_attention": {}}},
    {"rope_scaling": LINEAR, "rope_parameters": {"full_attention": None}},
    {"rope_scaling": {"factor": 4.0}, "rope_parameters": {"full_attention": LINEAR}},
    {"rope_scaling": {"rope_type": "default"}, "rope_parameters": {"full_attention": LINEAR}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": {"full_attention": LINEAR}},
    {"rope_scaling": {"type": "default"}, "rope_parameters": {"full_attention": {"type": "linear", "factor": 2.0}}},
    {"partial_rotary_factor": 0.5, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}},
    {"partial_rotary_factor": 0.5, "rope_scaling": LINEAR}, {"partial_rotary_factor": 1.0, "rope_scaling": LINEAR},
    {**OUTSIDE, "rope_parameters": {"rope_type": "default"}}, {**OUTSIDE, "rope_parameters": THETAS},
    {"head_dim": None, "hidden_size": 16},
]
EXPERT_COMBINATIONS = [
    {"num_experts": 4, "num_local_experts": 4}, {"num_experts": 4, "num_local_experts": 3},
    {"num_experts": 3, "num_local_experts": 4}, {"num_experts": None, "num_local_experts": 4},
    {"num_experts": 4, "num_local_experts": None}, {"num_experts": 0, "num_local_experts": 4},
    {"num_experts": 4, "num_local_experts": 0}, {"num_experts": 4, "num_experts_per_tok": 4},
    {"num_experts_per_tok": 4, "norm_topk_prob": True}, {"num_experts_per_tok": 1, "norm_topk_prob": True},
    {"output_router_logits": True, "router_aux_loss_coef": 0.0}, {"output_router_logits": True, "router_aux_loss_coef": 0.5},
    {"output_router_logits": False, "router_aux_loss_coef": 0.5}, {"output_router_logits": True, "num_experts": 0},
    {"decoder_sparse_step": 1, "mlp_only_layers": [0]}, {"decoder_sparse_step": 1, "mlp_only_layers": [1]},
    {"decoder_sparse_step": 1, "mlp_only_layers": [0, 5]}, {"decoder_sparse_step": 1, "mlp_only_layers": [-2]},
    {"decoder_sparse_step": 1, "mlp_only_layers": []}, {"decoder_sparse_step": 0, "mlp_only_layers": [0, 1]},
    {"decoder_sparse_step": 3, "num_experts": 0}, {"mlp_only_layers": [1], "num_experts": 0},
    {"sliding_window": 4, "use_sliding_window": True}, {"sliding_window": 4, "use_sliding_window": False},
    {"sliding_window": None, "use_sliding_window": True}, {"head_dim": 4, "sliding_window": 4}, {"head_dim": 4, "attention_bias": True},
    {"router_jitter_noise": 0.5, "num_experts_per_tok": 4},
]
LONG = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
ONES = {"rope_type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.0, 1.0]}
OF_8 = {"original_max_position_embeddings": 8}
OWN_COMBINATIONS = {"phi3": [
    {**OF_8, "rope_parameters": LONG}, {**OUTSIDE, "rope_parameters": LONG}, {**OF_8, "rope_scaling": LONG},
    {"rope_parameters": {**LONG, **OF_8}}, {"rope_parameters": ONES}, {**OF_8, "rope_parameters": ONES},
    {**OF_8, "rope_parameters": {**LONG, "attention_factor": 1.0}}, {**OF_8, "rope_parameters": {**LONG, "factor": 2.0}},
    {**OF_8, "rope_parameters": {**LONG, "factor": 0.5}}, {**OF_8, "rope_parameters": {**ONES, "attention_factor": 1.0}},
    {**OF_8, "rope_parameters": {**LONG, "attention_factor": None, "factor": None}},
    {**OF_8, "rope_parameters": {**LONG, "long_factor": [1, 2]}}, {**OF_8, "rope_parameters": {**LONG, "short_factor": [1.0]}},
    {**OF_8, "rope_parameters": {**LONG, "long_factor": [1.0, "x"]}}, {**OF_8, "rope_parameters": {**LONG, "long_factor": None}},
    {**OF_8, "rope_parameters": {**LONG, "long_factor": [1.0, -2.0]}}, {**OF_8, "rope_parameters": {**LONG, "rope_type": "su"}},
    {**OF_8, "rope_parameters": {**LONG, "rope_type": "yarn"}}, {**OF_8, "rope_parameters": {**LONG, "rope_type": "default"}},
    {**OF_8, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}},
    {**OF_8, "rope_theta": 50.0, "rope_parameters": LONG}, {"original_max_position_embeddings": 1, "rope_parameters": LONG},
    {"original_max_position_embeddings": 64, "rope_parameters": LONG}, {**OF_8, "rope_parameters": {**LONG, "factor": 8}},
]}
# Two files for one model, wherever transformers reads both.
PAIRS = [
    ({**OUTSIDE, "rope_parameters": LLAMA3}, {"rope_parameters": {**LLAMA3, **OUTSIDE}}),
    ({**OUTSIDE, "rope_scaling": LLAMA3}, {"rope_parameters": {**LLAMA3, **OUTSIDE}}),
    ({"rope_theta": 50.0, "rope_parameters": LLAMA3}, {"rope_parameters": LLAMA3}),
    ({"rope_theta": 50.0, "rope_parameters": {"rope_type": "default"}}, {"rope_theta": 50.0}),
    ({"rope_scaling": {"rope_type": "default", "rope_theta": 50.0}, "rope_parameters": LLAMA3}, {"rope_theta": 50.0}),
    ({"rope_scaling": {}, "rope_parameters": LLAMA3}, {"rope_parameters": LLAMA3}),
    ({"rope_parameters": {key: value for key, value in LLAMA3.items() if key not in OUTSIDE}},
     {"rope_parameters": {**LLAMA3, "original_max_position_embeddings": 64}}),
    ({"pad_token_id": -1}, {"pad_token_id": VOCABULARY - 1}),
    ({"pad_token_id": -VOCABULARY}, {"pad_token_id": 0}),
    ({**WINDOW, "sliding_window": None}, {"sliding_window": None}),
    ({**WINDOW, "max_window_layers": LAYERS}, {"sliding_window": 4}),
    ({**WINDOW, "layer_types": SLIDING * LAYERS}, WINDOW),
]
GEMMA_PAIRS = [
    ({"pad_token_id": -1}, {"pad_token_id": VOCABULARY - 1}),
    ({"layer_types": None, "sliding_window_pattern": 1}, {"layer_types": FULL * LAYERS}),
    ({"layer_types": FULL * LAYERS, "sliding_window": None}, {"layer_types": FULL * LAYERS}),
    ({"layer_types": None, "sliding_window_pattern": 3}, {"layer_types": SLIDING * LAYERS}),
    ({"rope_theta": 50.0, "rope_local_base_freq": 70.0},
     {"rope_parameters": {"full_attention": {"rope_theta": 50.0}, "sliding_attention": {"rope_theta": 70.0}}}),
    ({"rope_scaling": LINEAR}, {"rope_parameters": {"full_attention": LINEAR}}),
    ({"rope_scaling": {"factor": 4.0}, "rope_parameters": {"full_attention": LINEAR}},
     {"rope_parameters": {"full_attention": {**LINEAR, "factor": 4.0}}}),
    ({"rope_scaling": LINEAR, "rope_parameters": THETAS},
     {"rope_parameters": {**THETAS, "full_attention": {**LINEAR, "rope_theta": 50.0}}}),
]
GEMMA2_PAIRS = [
    ({"pad_token_id": -1}, {"pad_token_id": VOCABULARY - 1}),
    ({"layer_types": FULL * LAYERS, "sliding_window": None}, {"layer_types": FULL * LAYERS}),
    ({"rope_theta": 50.0}, {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ({"rope_theta": 50.0, "rope_parameters": LLAMA3}, {"rope_parameters": LLAMA3}),
]
PHI3_PAIRS = PAIRS + [
    ({**OF_8, "rope_scaling": LONG}, {**OF_8, "rope_parameters": LONG}),
    ({**OF_8, "rope_parameters": {**LONG, "factor": 8.0}}, {**OF_8, "rope_parameters": LONG}),
    ({**OF_8, "rope_scaling": {**LONG, "type": "longrope"}}, {**OF_8, "rope_parameters": LONG}),
    ({"rope_parameters": ONES}, {}),
]
# Its window has no max_window_layers.
QWEN3_MOE_PAIRS = [pair for pair in PAIRS if pair[0].get("max_window_layers") != LAYERS] + [
    ({"num_experts": 4, "num_local_experts": 4}, {}), ({"num_local_experts": 4}, {}),
    ({"decoder_sparse_step": 1, "mlp_only_layers": [0]}, {"mlp_only_layers": [0]}),
    ({**WINDOW, "max_window_layers": LAYERS}, WINDOW),
    ({"head_dim": 4, "rope_theta": 50.0}, {"rope_theta": 50.0}),
]
MIXTRAL_PAIRS = PAIRS + [
    ({"num_experts": 4}, {}), ({"head_dim": 4, "sliding_window": 4}, {"head_dim": None, "sliding_window": 4}),
    ({"rope_theta": 1e6}, {}), ({"rope_parameters": {"rope_type": "default"}}, {"rope_theta": 1e6}),
]
OWN_PAIRS = {"gemma2": GEMMA2_PAIRS, "gemma3_text": GEMMA_PAIRS, "phi3": PHI3_PAIRS, "mixtral": MIXTRAL_PAIRS, "qwen3_moe": QWEN3_MOE_PAIRS}


def names_in_sources(sources):
    """Every name that transformers takes from a config: by attribute, by getattr, or out of the file's other keys."""
    patterns = [r"(?:getattr|hasattr)\(\s*(?:self\.)?(?:config|text_config|self), \"(\w+)\"", r"\bconfig\.([a-z_]\w+)",
                r"kwargs\.(?:pop|get)\(\"(\w+)\""]
    text = "\n".join(inspect.getsource(module) for module in sources)
    names = {name for pattern in patterns for name in re.findall(pattern, text)}
    return {name for name in names if not callable(getattr(GPT2Config, name, None))}


def all_keys(model_type, config_class):
    keys = {field.name for field in dataclasses.fields(config_class)} | set(config_class().to_dict())
    keys |= set(GenerationConfig._get_default_generation_params()) | set(config_class.attribute_map)
    keys |= names_in_sources(SOURCES) | set(VALUES) | set(OTHER_KEYS)
    if model_type in WITH_EXPERTS:
        keys |= names_in_sources(EXPERT_SOURCES) | set(EXPERT_VALUES)
    return sorted(keys - {"model_type"})


class Family:
    """One family's tiny model, and what a changed config.json makes of its first training step."""

    def __init__(self, model_type, config_class, config, folder):
        self.folder = folder
        self.config = {"model_type": model_type, **config}
        self.values = {**VALUES, **EXPERT_VALUES} if model_type in WITH_EXPERTS else VALUES
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config_class(**config))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape) + (parameter.dim() == 1))
            model.lm_head.weight.copy_(model.get_input_embeddings().weight)  # so that tying it changes gradients alone
        model.save_pretrained(folder)
        self.tokens = torch.arange(2 * SEQUENCE).reshape(2, SEQUENCE)
        self.tokens[1, 0] = VOCABULARY - 1
        self.reference = self.step({})

    def step(self, changes):
        config = {**self.config, **changes}
        (self.folder / "config.json").write_text(json.dumps(config))
        model, loading = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager",
                                                              config=AutoConfig.from_pretrained(self.folder),
                                                              output_loading_info=True)
        if any(loading.values()):
            return None
        torch.manual_seed(1)
        loss = model.train()(input_ids=self.tokens, labels=self.tokens, use_cache=False).loss
        loss.backward()
        return [loss.detach()] + [parameter.grad for _, parameter in sorted(model.named_parameters())]

    @staticmethod
    def equal(values, others):
        if values is None or len(values) != len(others):
            return False
        # One formula may be written in two ways: "gelu_new", "gelu_pytorch_tanh".
        return all(a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(values, others))

    def effect(self, changes):
        try:
            values = self.step(changes)
        except Exception as error:  # pylint: disable=broad-except
            # A model of other sizes, which these weights do not fit: it tells a wrong number of experts from no number.
            is_model = self.values is not VALUES and "ignore_mismatched_sizes" in str(error)
            return "changes" if is_model else "rejected"
        return "same" if self.equal(values, self.reference) else "changes"

    def is_pair(self, pair):
        if "rejected" in map(self.effect, pair):
            return False
        if not self.equal(*map(self.step, pair)):
            raise SystemExit(f"{self.config['model_type']}: {pair[0]} is not {pair[1]}")
        return True

    def effects(self, key):
        found = {"same": [], "changes": [], "rejected": []}
        for value in ANY_VALUES + self.values.get(key, []):
            found[self.effect({key: value})].append(value)
        return found


def group(effects):
    """Keys that do the same at every value, together."""
    groups = {}
    for key, found in effects.items():
        groups.setdefault(json.dumps(found, sort_keys=True), []).append(key)
    return [{"keys": keys, **json.loads(found)} for found, keys in groups.items()]


def describe(model_type, config_class, config):
    folder = pathlib.Path(tempfile.mkdtemp())
    family = Family(model_type, config_class, config, folder)
    pairs = [pair for pair in OWN_PAIRS.get(model_type, PAIRS) if family.is_pair(pair)]
    keys = {key: family.effects(key) for key in all_keys(model_type, config_class)}
    combinations = {"same": [], "changes": [], "rejected": []}
    own = OWN_COMBINATIONS.get(model_type, []) + (EXPERT_COMBINATIONS if model_type in WITH_EXPERTS else [])
    for combination in COMBINATIONS + own:
        combinations[family.effect(combination)].append(combination)
    shutil.rmtree(folder)
    return {"config": family.config, "defaults": json.loads(config_class().to_json_string(use_diff=False)),
            "combinations": combinations, "pairs": pairs, "keys": group(keys)}


def text(families):
    """JSON with a line per group of keys, so that a newer version's file shows what has changed."""
    parts = [f' "transformers": {json.dumps(transformers.__version__)}']
    for name, family in families.items():
        lines = [f'  {json.dumps(part)}: {json.dumps(family[part])}' for part in ("config", "defaults", "combinations", "pairs")]
        groups = ",\n".join("   " + json.dumps(group) for group in family["keys"])
        parts.append(f' "{name}": {{\n' + ",\n".join(lines) + f',\n  "keys": [\n{groups}\n  ]\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = json.loads(OUTPUT.read_text()) if sys.argv[1:] else {}
    families = {name: describe(name, *family) if name in (sys.argv[1:] or FAMILIES) else known[name]
                for name, family in FAMILIES.items()}
    OUTPUT.write_text(text(families))


if __name__ == "__main__":
    main()
