"""Writes goldens/: tiny transformers models and what transformers + torch.optim make of them (see README.md).

    .venv/bin/python tests/parity/make_goldens.py [NAME ...]

Every golden is trained a second time in double precision. If the two precisions disagree by more than a third of the
tolerance that the engine has to meet, the golden is ill-conditioned and the script fails.
"""
import argparse
import fnmatch
import json
import pathlib
import shutil
import tempfile

import bitsandbytes.functional as bitsandbytes
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, GraniteConfig, LlamaConfig,
                          MistralConfig, MixtralConfig, Olmo2Config, Phi3Config, Qwen2Config, Qwen3Config,
                          Qwen3MoeConfig, Starcoder2Config)
from transformers.utils import logging

GOLDENS = pathlib.Path(__file__).parent / "goldens"
FP32_STEPS, BF16_STEPS = 20, 50
TOLERANCE = 1e-4
# Plain attention, and one product after the other for the experts of a layer.
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
# Epsilon is large enough that a gradient which is zero but for rounding, GPT-2's key bias, does not become an update.
OPTIMIZER = {"learning_rate": 2e-3, "betas": [0.9, 0.95], "epsilon": 1e-5, "weight_decay": 0.1, "clip_norm": 1.0}


def sgd(learning_rate, momentum):
    """torch.optim.SGD in the place of AdamW."""
    return {"type": "sgd", "learning_rate": learning_rate, "momentum": momentum, "weight_decay": 0.02, "clip_norm": 1.0}


def muon(learning_rate):
    """torch.optim.Muon for matrices of layers, and AdamW for all else."""
    return {**OPTIMIZER, "type": "muon", "learning_rate": learning_rate, "momentum": 0.9, "muon_scaling": "match_rms_adamw"}


def llama_like(**changes):
    options = dict(vocab_size=101, hidden_size=32, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0)
    return {**options, **changes}


def gemma_like(**changes):
    """A padding token that occurs in the data, as all of Gemma's checkpoints have one."""
    return llama_like(**{"head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 7, "intermediate_size": 52,
                         "pad_token_id": 0, "tie_word_embeddings": True, **changes})


def cases():
    """Name: (seed, config, sequence length, batch, microbatch), then perhaps train.freeze, optimizer.groups, the optimizer,
    the adapters as a run file's section has them, memory.frozen_as, the lengths of documents in each window of a step.
    """
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    return {
        "gpt2": (0, GPT2Config(vocab_size=113, n_embd=36, n_layer=2, n_head=3, n_positions=40, bos_token_id=0,
                               eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 33, 4, 2),
        "llama-tied": (1, LlamaConfig(**llama_like(tie_word_embeddings=True)), 31, 6, 2),
        "llama-untied": (2, LlamaConfig(**llama_like(hidden_size=40, num_attention_heads=5, num_key_value_heads=1,
                                                     intermediate_size=56, tie_word_embeddings=False,
                                                     rope_parameters=llama3)), 29, 6, 3),
        "qwen2": (3, Qwen2Config(**llama_like(vocab_size=127, tie_word_embeddings=True)), 24, 6, 2),
        "qwen3": (4, Qwen3Config(**llama_like(vocab_size=97, head_dim=10, tie_word_embeddings=False)), 27, 4, 2),
        "mistral": (5, MistralConfig(**llama_like(sliding_window=7, tie_word_embeddings=False)), 26, 6, 2),
        "llama-padding": (6, LlamaConfig(**llama_like(pad_token_id=5, tie_word_embeddings=True)), 31, 6, 2),
        "olmo2": (7, Olmo2Config(**llama_like(pad_token_id=None, tie_word_embeddings=False)), 25, 6, 2),
        "phi3": (8, Phi3Config(**llama_like(vocab_size=103, pad_token_id=None, sliding_window=9)), 28, 6, 3),
        "granite": (9, GraniteConfig(**llama_like(attention_multiplier=0.3, embedding_multiplier=3.0,
                                                  residual_multiplier=0.6, logits_scaling=2.5,
                                                  tie_word_embeddings=True)), 27, 6, 2),
        "starcoder2": (16, Starcoder2Config(**llama_like(vocab_size=101, tie_word_embeddings=True, sliding_window=9)), 26, 6, 2),
        "gemma3": (10, Gemma3TextConfig(**gemma_like(
            num_hidden_layers=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                             "full_attention": {"rope_type": "default", "rope_theta": 20000.0}})), 29, 6, 2),
        "gemma2": (11, Gemma2Config(**gemma_like(attn_logit_softcapping=2.0, final_logit_softcapping=5.0)), 26, 6, 2),
        "mixtral-balanced": (12, MixtralConfig(**llama_like(vocab_size=97, intermediate_size=22, num_local_experts=4,
                                                            num_experts_per_tok=2, output_router_logits=True,
                                                            router_aux_loss_coef=0.05)), 23, 6, 2),
        "qwen3-moe": (13, Qwen3MoeConfig(**llama_like(vocab_size=97, moe_intermediate_size=18, head_dim=10,
                                                      num_experts=5, num_experts_per_tok=3, norm_topk_prob=True)),
                      27, 4, 2),
        "qwen3-moe-dense": (14, Qwen3MoeConfig(**llama_like(
            vocab_size=97, num_hidden_layers=4, intermediate_size=26, moe_intermediate_size=14, num_experts=4,
            num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=2, mlp_only_layers=[1],
            tie_word_embeddings=True)), 22, 6, 3),
        "mixtral": (15, MixtralConfig(**llama_like(vocab_size=97, intermediate_size=22, num_local_experts=4,
                                                   num_experts_per_tok=2)), 23, 6, 2),
        "qwen3-moe-balanced": (16, Qwen3MoeConfig(**llama_like(
            vocab_size=97, num_hidden_layers=4, intermediate_size=26, moe_intermediate_size=14, head_dim=10, num_experts=5,
            num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=2, output_router_logits=True,
            router_aux_loss_coef=0.05)), 22, 6, 3),
        "phi3-long": (17, Phi3Config(**llama_like(
            vocab_size=103, pad_token_id=None, original_max_position_embeddings=16, rope_parameters={
                "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 2.0],
                "long_factor": [1.0, 1.5, 4.0, 9.5]})), 28, 6, 3),
        "phi4-documents": (30, Phi3Config(**llama_like(
            vocab_size=103, pad_token_id=None, original_max_position_embeddings=10, partial_rotary_factor=0.75,
            tie_word_embeddings=True, rope_scaling={
                "type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.5, 9.5]})), 28, 6, 3,
            [], [], OPTIMIZER, None, None, [[28], [10, 11, 7], [3, 25], [1, 12, 9, 6], [20, 8], [5, 5, 5, 13]]),
        "qwen3-yarn": (31, Qwen3Config(**llama_like(
            vocab_size=97, head_dim=10, max_position_embeddings=64, rope_parameters={
                "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
                "beta_fast": 2.0})), 27, 4, 2),
        "mistral-dynamic": (32, MistralConfig(**llama_like(
            vocab_size=97, max_position_embeddings=11, sliding_window=None,
            rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0})), 26, 4, 2),
        "qwen2-frozen": (16, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                      num_hidden_layers=3, tie_word_embeddings=True)), 24, 6, 2,
                         ["model.embed_tokens.*", "model.layers.0.*", "*.1.self_attn.k_proj.weight", "*.q_proj.bias",
                          "*.2.mlp.gate_proj.*", "*.1.input_layernorm.weight", "*.2.self_attn.[qv]_proj.weight"]),
        "qwen2-groups": (19, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                      tie_word_embeddings=True)), 24, 6, 2, [],
                         [{"tensors": ["*.bias", "*norm.weight"], "weight_decay": 0.4},
                          {"tensors": ["model.embed_tokens.*"], "lr_factor": 0.1},
                          {"tensors": ["*.1.*"], "lr_factor": 2.5, "weight_decay": 0.0},
                          {"tensors": ["*.k_proj.*", "*.0.mlp.up_proj.*"], "lr_factor": 0.5, "weight_decay": 0.7},
                          {"tensors": ["*.1.self_attn.k_proj.bias"], "weight_decay": 1.5}]),
        "qwen2-sgd": (20, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                   tie_word_embeddings=True)), 24, 6, 2, [], [], sgd(0.1, 0)),
        "qwen2-momentum": (21, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                        tie_word_embeddings=True)), 24, 6, 2, [],
                           [{"tensors": ["*.1.*"], "lr_factor": 2.5, "weight_decay": 0.0},
                            {"tensors": ["*.k_proj.*", "*norm.weight"], "weight_decay": 0.2}], sgd(0.02, 0.9)),
        "qwen2-muon": (45, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                    tie_word_embeddings=True)), 24, 6, 2, [],
                       [{"tensors": ["*.1.*"], "lr_factor": 2.5, "weight_decay": 0.0},
                        {"tensors": ["*.0.self_attn.o_proj.weight"], "type": "adamw"}], muon(1e-4)),
        "gpt2-lora": (22, GPT2Config(vocab_size=67, n_embd=24, n_layer=2, n_head=3, n_positions=40, bos_token_id=0,
                                     eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 33, 4, 2, [], [],
                      OPTIMIZER, {"type": "lora", "rank": 3, "alpha": 5, "targets": ["c_attn", "c_fc", "mlp.c_proj"]}),
        "qwen3-lora": (23, Qwen3Config(**llama_like(vocab_size=67, hidden_size=24, intermediate_size=40, head_dim=10,
                                                    tie_word_embeddings=True)), 27, 4, 2, [], [], OPTIMIZER,
                       {"type": "rslora", "rank": 4, "alpha": 2, "targets": ["all-linear"]}),
        "qwen2-lora": (24, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                    tie_word_embeddings=False)), 24, 6, 2, [], [], OPTIMIZER,
                       {"type": "lora", "rank": 5, "alpha": 5, "targets": ["q_proj", "v_proj", "down_proj"]}),
        "gpt2-dora": (25, GPT2Config(vocab_size=67, n_embd=24, n_layer=2, n_head=3, n_positions=40, bos_token_id=0,
                                     eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), 33, 4, 2, [], [],
                      OPTIMIZER, {"type": "dora", "rank": 3, "alpha": 5, "targets": ["c_attn", "c_fc", "mlp.c_proj"]}),
        "qwen2-dora": (26, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                    tie_word_embeddings=False)), 24, 6, 2, [], [], OPTIMIZER,
                       {"type": "dora", "rank": 5, "alpha": 5, "targets": ["q_proj", "v_proj", "down_proj"]}),
        "qwen3-dora": (27, Qwen3Config(**llama_like(vocab_size=67, hidden_size=24, intermediate_size=40, head_dim=10,
                                                    tie_word_embeddings=True)), 27, 4, 2, [], [], OPTIMIZER,
                       {"type": "dora", "rank": 4, "alpha": 6, "targets": ["all-linear"]}),
        # The first pattern that matches counts, so their order does.
        "qwen3-lora-patterns": (33, Qwen3Config(**llama_like(vocab_size=67, hidden_size=24, intermediate_size=40, head_dim=10,
                                                             tie_word_embeddings=True)), 27, 4, 2, [], [], OPTIMIZER,
                                {"type": "rslora", "rank": 4, "alpha": 2, "targets": ["all-linear"],
                                 "rank_pattern": [["q_proj", 3], ["0.self_attn.*", 6], [r"^model\.layers\.1\.mlp\.(up|down)_proj", 9],
                                                  ["(k|up)_proj", 2]],
                                 "alpha_pattern": [[r".*\.[kv]_proj", 5], ["model.layers.0.mlp.down_proj", 0.5], ["1.*", 3]]}),
        "qwen2-dora-patterns": (34, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                             tie_word_embeddings=False)), 24, 6, 2, [], [], OPTIMIZER,
                                {"type": "dora", "rank": 5, "alpha": 5, "targets": ["q_proj", "v_proj", "down_proj"],
                                 "rank_pattern": [["layers.1.self_attn.v_proj", 2], ["[qv]_proj", 7]],
                                 "alpha_pattern": [["down_proj", 15]]}),
        "gpt2-dropout": (25, GPT2Config(vocab_size=113, n_embd=36, n_layer=2, n_head=3, n_positions=40, bos_token_id=0,
                                        eos_token_id=0, resid_pdrop=0.2, embd_pdrop=0.1, attn_pdrop=0.0), 33, 4, 2),
        "qwen2-lora-dropout": (26, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                            tie_word_embeddings=False)), 24, 6, 2, [], [], OPTIMIZER,
                               {"type": "lora", "rank": 5, "alpha": 10, "targets": ["q_proj", "v_proj", "o_proj", "down_proj"],
                                "dropout": 0.3}),
        "llama-nf4": (25, LlamaConfig(**llama_like(vocab_size=61, intermediate_size=44, tie_word_embeddings=False)), 27, 4, 2,
                      [], [], OPTIMIZER, {"type": "lora", "rank": 4, "alpha": 6, "targets": ["all-linear"]}, "nf4"),
        "qwen2-nf4": (26, Qwen2Config(**llama_like(vocab_size=59, hidden_size=24, intermediate_size=40,
                                                   tie_word_embeddings=True)), 24, 6, 2, [], [], OPTIMIZER,
                      {"type": "lora", "rank": 3, "alpha": 5, "targets": ["q_proj", "v_proj", "down_proj"]}, "nf4"),
        "qwen3-nf4": (27, Qwen3Config(**llama_like(vocab_size=67, hidden_size=24, intermediate_size=36, head_dim=10,
                                                   tie_word_embeddings=False)), 27, 4, 2, [], [], OPTIMIZER,
                      {"type": "rslora", "rank": 4, "alpha": 2, "targets": ["all-linear"]}, "nf4"),
        "llama-int8": (28, LlamaConfig(**llama_like(vocab_size=61, intermediate_size=44, tie_word_embeddings=True)), 27, 4, 2,
                       [], [], OPTIMIZER, {"type": "lora", "rank": 4, "alpha": 6, "targets": ["all-linear"]}, "int8"),
    }


def mixed(x):
    """What base/dropout.h calls so, of uint32 numbers."""
    x = (x ^ (x >> 16)) * np.uint32(0x85ebca6b)
    x = (x ^ (x >> 13)) * np.uint32(0xc2b2ae35)
    return x ^ (x >> 16)


class CountedDropout(torch.nn.Module):
    """Drops what is_kept() in base/dropout.h does not keep, in training or not; the key of a row is its token's number in the run."""

    first_token = 0  # of the microbatch

    def __init__(self, probability, unit, number):
        super().__init__()
        self.probability, self.site = np.float32(probability), np.uint32(1024 * unit + number)

    def forward(self, x):
        keys = np.arange(x.shape[:-1].numel(), dtype=np.uint32) + np.uint32(CountedDropout.first_token)
        rows = mixed(keys ^ mixed(self.site + np.array([0x9e3779b9], np.uint32)))
        columns = mixed(np.arange(x.shape[-1], dtype=np.uint32) + np.uint32(0x85ebca77))
        is_kept = mixed(rows[:, None] ^ columns[None, :]) >= np.uint32(np.float64(self.probability) * 2**32)
        factors = is_kept * (np.float32(1) / (np.float32(1) - self.probability))
        return (x * torch.from_numpy(factors).reshape(x.shape).to(x.dtype if x.dtype == torch.float64 else torch.float32)).to(x.dtype)


def count_dropouts(model):
    """Puts CountedDropout in the place of every dropout of embeddings, residual branches and adapters."""
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    if isinstance(base.config, GPT2Config):
        layers = base.transformer.h
        base.transformer.drop = CountedDropout(base.config.embd_pdrop, 0, 0)
        for unit, layer in enumerate(layers, 1):
            layer.attn.resid_dropout = CountedDropout(base.config.resid_pdrop, unit, 0)
            layer.mlp.dropout = CountedDropout(base.config.resid_pdrop, unit, 1)
        return
    for unit, layer in enumerate(base.model.layers, 1):
        number = 0
        for linear in (getattr(block, name) for block, names in ((layer.self_attn, "qkvo"), (layer.mlp, ("gate", "up", "down")))
                       for name in (f"{start}_proj" for start in names)):
            if hasattr(linear, "lora_dropout"):
                dropout = linear.lora_dropout["default"]
                linear.lora_dropout["default"] = CountedDropout(dropout.p, unit, number)
                number += 1


def make_tokens(vocabulary, sequence, windows, generator):
    """[windows, sequence + 1] tokens of a noisy linear recurrence, so that there is something to learn."""
    tokens = torch.zeros(windows, sequence + 1, dtype=torch.int64)
    tokens[:, 0] = torch.randint(vocabulary, (windows,), generator=generator)
    for t in range(1, sequence + 1):
        follows = (3 * tokens[:, t - 1] + 1) % vocabulary
        noise = torch.randint(vocabulary, (windows,), generator=generator)
        tokens[:, t] = torch.where(torch.rand(windows, generator=generator) < 0.7, follows, noise)
    return tokens


def make_model(config, generator):
    """Weights far from their usual start, so that every gradient, those of norms and biases too, has a size."""
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **EAGER)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() >= 2:
                parameter.copy_(0.15 * noise)
            else:
                parameter.add_((0.1 if name.endswith("bias") else 0.2) * noise)
    return model.eval()


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def parameter_group(name, parameter, groups, settings):
    """What torch's optimizer is told of a parameter: of groups that fit, the last one that gives a value."""
    policy = {"lr_factor": 1.0, "weight_decay": settings["weight_decay"] if parameter.dim() >= 2 else 0.0}
    for group in groups:
        if matches(name, group["tensors"]):
            policy.update({key: group[key] for key in policy if key in group})
    return {"params": [parameter], "lr": settings["learning_rate"] * policy["lr_factor"],
            "weight_decay": policy["weight_decay"]}


def is_for_muon(name, parameter, groups, settings):
    """Whether Muon updates it: a matrix of a layer, but for groups that say otherwise."""
    kind = "muon" if settings.get("type") == "muon" and ".layers." in name and parameter.dim() == 2 else "adamw"
    for group in groups:
        if matches(name, group["tensors"]):
            kind = group.get("type", kind)
    return kind == "muon"


class Together:
    """Several optimizers as one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def make_optimizer(trained, groups, settings):
    matrices = {name for name, parameter in trained.items() if is_for_muon(name, parameter, groups, settings)}
    parameters = [parameter_group(name, parameter, groups, settings) for name, parameter in trained.items() if name not in matrices]
    if matrices:
        of_matrices = [parameter_group(name, trained[name], groups, settings) for name in sorted(matrices)]
        return Together(torch.optim.Muon(of_matrices, momentum=settings["momentum"], adjust_lr_fn=settings["muon_scaling"]),
                        torch.optim.AdamW(parameters, betas=tuple(settings["betas"]), eps=settings["epsilon"], foreach=False))
    if settings.get("type") == "sgd":
        return torch.optim.SGD(parameters, momentum=settings["momentum"], foreach=False)
    return torch.optim.AdamW(parameters, betas=tuple(settings["betas"]), eps=settings["epsilon"], foreach=False)


def logits_and_targets(model, part, lengths):
    """Of each document alone, whose last token predicts nothing; of one window, if lengths of documents are given."""
    if lengths is None:
        output = model(input_ids=part[:, :-1], use_cache=False)
        return output, output.logits, part[:, 1:]
    logits, targets, first = [], [], 0
    for length in lengths:
        output = model(input_ids=part[:, first:first + length], use_cache=False)
        logits.append(output.logits[:, :-1])
        targets.append(part[:, first + 1:first + length])
        first += length
    return output, torch.cat(logits, 1), torch.cat(targets, 1)


def accumulate(model, windows, microbatch, autocast, first_token, documents):
    """Adds the gradient of the mean loss over all tokens of `windows`, and returns that loss. Their first token has the number `first_token`.

    A model with output_router_logits adds its auxiliary loss, which is one of a microbatch: its mean over them.
    """
    targets = windows[:, 1:].numel() if documents is None else sum(sum(own) - len(own) for own in documents)
    microbatch = microbatch if documents is None else 1
    microbatches = len(windows) // microbatch
    total = 0.0
    for number, part in enumerate(windows.split(microbatch)):
        CountedDropout.first_token = first_token + number * part[:, 1:].numel()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output, logits, expected = logits_and_targets(model, part, documents and documents[number])
        logits = logits if logits.dtype == torch.float64 else logits.float()
        loss = cross_entropy(logits.flatten(0, 1), expected.flatten(), reduction="sum") / targets
        if getattr(output, "aux_loss", None) is not None:
            loss = loss + model.config.router_aux_loss_coef * output.aux_loss / microbatches
        loss.backward()
        total += loss.item()
    return total


def has_dropout(model):
    return any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in model.modules())


def make_adapters(folder, adapter, generator):
    """A folder of PEFT beside the model, with adapters that are not zero, and magnitudes that are not norms."""
    targets = "all-linear" if adapter["targets"] == ["all-linear"] else adapter["targets"]
    patterns = {key: dict(adapter[key]) for key in ("rank_pattern", "alpha_pattern") if key in adapter}
    config = LoraConfig(task_type="CAUSAL_LM", r=adapter["rank"], lora_alpha=adapter["alpha"], target_modules=targets,
                        use_rslora=adapter["type"] == "rslora", use_dora=adapter["type"] == "dora",
                        lora_dropout=adapter.get("dropout", 0.0), **patterns)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder / "model", **EAGER), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) if "lora_" in name else None
            if "lora_magnitude_vector" in name:
                parameter.mul_(1 + 0.2 * noise)
            elif "lora_" in name:
                parameter.copy_(0.15 * noise)
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    path = folder / "adapter" / "adapter_config.json"
    saved = json.loads(path.read_text().replace(str(folder / "model"), "../model"))
    path.write_text(json.dumps({**saved, **patterns}, indent=2))  # PEFT has sorted the patterns


def name_in_file(name):
    """A parameter's name in memory as a folder of adapters or a model's has it."""
    name = name.removeprefix("base_model.model.").replace(".default.", ".").replace(".base_layer.", ".")
    return name.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")


def quantize(model, frozen_as):
    """Gives linear layers, but for the head, the weights that bitsandbytes' codes of theirs stand for."""
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        weight = module.weight.data.float()
        if frozen_as == "nf4":
            # As one row: version 0.50.2 puts blocks elsewhere on a CPU where rows of 32, 96, … elements cut them.
            codes = bitsandbytes.quantize_4bit(weight.flatten(), blocksize=64, quant_type="nf4")
            weight = bitsandbytes.dequantize_4bit(*codes).view(weight.shape)
        else:
            codes, scales, _ = bitsandbytes.int8_vectorwise_quant(weight)
            weight = bitsandbytes.int8_vectorwise_dequant(codes, scales)
        module.weight.data = weight.to(module.weight.dtype)


def train(folder, tokens, steps, batch, microbatch, freeze, groups, settings, frozen_as, documents, dtype=torch.float32,
          autocast=False):
    """Returns losses, gradient norms, the gradients of step 1 before clipping, and the weights at the end."""
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype, **EAGER).eval()
    if frozen_as:
        quantize(model, frozen_as)
    if (folder / "adapter").exists():
        model = PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True).to(dtype).eval()
    else:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not matches(name, freeze))
    if has_dropout(model):
        count_dropouts(model)
    named = {name_in_file(name): parameter for name, parameter in model.named_parameters()}
    trained = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    optimizer = make_optimizer(trained, groups, settings)
    losses, norms, gradients = [], [], None
    for step in range(steps):
        optimizer.zero_grad()
        windows = tokens[step * batch:(step + 1) * batch]
        losses.append(accumulate(model, windows, microbatch, autocast, step * windows[:, 1:].numel(), documents))
        if gradients is None:
            gradients = {name: parameter.grad.detach().clone() for name, parameter in trained.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(trained.values(), settings["clip_norm"]).item())
        optimizer.step()
    weights = {name: p.detach().clone() for name, p in named.items()}
    return losses, norms, gradients, weights, model


def worst_difference(values, references):
    """The largest ‖Δ‖/‖reference‖ over the tensors of two dictionaries."""
    return max(((values[name].double() - reference.double()).norm() / reference.double().norm()).item()
               for name, reference in references.items())


def check_condition(name, single, double):
    """The goldens mean something only where rounding does not decide them."""
    differences = {"losses": max(abs(a - b) / abs(b) for a, b in zip(single[0], double[0])),
                   "gradients": worst_difference(single[2], double[2]),
                   "weights": worst_difference(single[3], double[3])}
    print(f"{name}: fp32 against fp64 " + ", ".join(f"{what} {size:.1e}" for what, size in differences.items()))
    if max(differences.values()) > TOLERANCE / 3:
        raise SystemExit(f"{name}: too sensitive to rounding; change its seed or sizes")


def save_as_model(tensors, config, path, left_out=()):
    """Writes parameters, or what some of them have of their shape, under the names and in the shapes of a saved model.

    In memory transformers keeps the weights of a layer's experts as one tensor, in files as one per expert.
    """
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **EAGER)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name, parameter in model.named_parameters():
            if name in tensors:
                parameter.copy_(tensors[name])
        model.save_pretrained(folder)
        saved = load_file(pathlib.Path(folder) / "model.safetensors")
        save_file({name: tensor for name, tensor in saved.items() if not matches(name, left_out)}, path)


def make_golden(name, seed, config, sequence, batch, microbatch, freeze=(), groups=(), settings=OPTIMIZER, adapter=None,
                frozen_as=None, documents=None):
    generator = torch.Generator().manual_seed(seed)
    folder = GOLDENS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_model(config, generator).save_pretrained(folder / "model")
    (folder / "model" / "generation_config.json").unlink(missing_ok=True)
    if adapter:
        make_adapters(folder, adapter, generator)

    tokens = make_tokens(config.vocab_size, sequence, BF16_STEPS * batch, generator)
    tokens.numpy().astype(np.uint16).tofile(folder / "tokens.bin")

    def run(steps, **options):
        return train(folder, tokens, steps, batch, microbatch, freeze, groups, settings, frozen_as, documents,
                     **options)

    single = run(FP32_STEPS)
    check_condition(name, single, run(FP32_STEPS, dtype=torch.float64))
    mixed = run(BF16_STEPS, autocast=True)
    if adapter:
        save_file(single[2], folder / "gradients.safetensors")
        save_file({key: tensor for key, tensor in single[3].items() if "lora_" in key}, folder / "weights.safetensors")
        merged = dict(single[4].merge_and_unload().named_parameters())
        save_file({key: tensor.detach().clone() for key, tensor in merged.items() if f"{key[:-7]}.lora_A.weight" in single[3]},
                  folder / "merged.safetensors")
    else:
        save_as_model(single[2], config, folder / "gradients.safetensors", freeze)
        save_as_model(single[3], config, folder / "weights.safetensors")
    golden = {"sequence_length": sequence, "batch": batch, "microbatch": microbatch, "optimizer": settings,
              "fp32": {"losses": single[0], "grad_norms": single[1]},
              "bf16": {"losses": mixed[0], "grad_norms": mixed[1]}}
    if getattr(config, "resid_pdrop", 0) > 0:
        golden["dropout"] = True
    if freeze:
        golden["freeze"] = freeze
    if groups:
        golden["groups"] = groups
    if adapter:
        golden["adapter"] = adapter
    if frozen_as:
        golden["frozen_as"] = frozen_as
    if documents:
        golden["documents"] = documents
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)
    print(f"{name}: losses {single[0][0]:.3f} … {single[0][-1]:.3f}, bf16 … {mixed[0][-1]:.3f}, "
          f"norms {min(single[1]):.2f} to {max(single[1]):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="goldens to make; all where none is given")
    names = parser.parse_args().names
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, case in cases().items():
        if not names or name in names:
            make_golden(name, *case)


if __name__ == "__main__":
    main()
