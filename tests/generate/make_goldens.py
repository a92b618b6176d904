"""Writes goldens.json: what transformers generates with tiny models, and its losses (see the tests beside it).

    .venv/bin/python tests/generate/make_goldens.py [NAME ...]

.venv is that of tests/parity/setup.sh. The weights are no files: value() makes each of its tensor's name and its place, here and in
tiny_models.h. A golden counts only if single and double precision choose the same tokens, and if the likeliest token is ahead of
the next one by MARGIN at every step. Otherwise the script tries the next seed.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, GraniteConfig, LlamaConfig, MistralConfig,
                          MixtralConfig, Olmo2Config, Phi3Config, Qwen2Config, Qwen3Config, Qwen3MoeConfig, Starcoder2Config)
from transformers.utils import logging

GOLDENS = pathlib.Path(__file__).parent / "goldens.json"
TOKENS = 200
MARGIN = 1e-3
PROMPTS = [[17, 3, 88, 41, 5, 62, 90], [7, 71]]
WINDOW = 48  # of the losses
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}


def llama_like(**changes):
    options = dict(vocab_size=97, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None,
                   tie_word_embeddings=False)
    return {**options, **changes}


def gemma_like(**changes):
    return llama_like(**{"head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 9, **changes})


def cases():
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16}
    long_rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3, 2.0],
                 "long_factor": [1.0, 1.5, 4.0, 9.5]}
    gemma3 = {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
              "full_attention": {"rope_type": "default", "rope_theta": 20000.0}}
    return {
        "gpt2": GPT2Config(vocab_size=97, n_embd=36, n_layer=2, n_head=3, n_positions=256, bos_token_id=None, eos_token_id=None,
                           resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
        "llama": LlamaConfig(**llama_like(rope_parameters=llama3)),
        "qwen2": Qwen2Config(**llama_like(tie_word_embeddings=True)),
        "qwen3": Qwen3Config(**llama_like(head_dim=10)),
        "mistral": MistralConfig(**llama_like(sliding_window=7)),
        "olmo2": Olmo2Config(**llama_like()),
        "granite": GraniteConfig(**llama_like(attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.6,
                                              logits_scaling=2.5)),
        "starcoder2": Starcoder2Config(**llama_like(sliding_window=7)),
        "phi3": Phi3Config(**llama_like(original_max_position_embeddings=64, rope_parameters=long_rope)),
        "gemma2": Gemma2Config(**gemma_like(attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
        "gemma3": Gemma3TextConfig(**gemma_like(layer_types=["sliding_attention", "full_attention"], rope_parameters=gemma3)),
        "mixtral": MixtralConfig(**llama_like(intermediate_size=22, num_local_experts=4, num_experts_per_tok=2)),
        "qwen3-moe": Qwen3MoeConfig(**llama_like(moe_intermediate_size=18, head_dim=10, num_experts=5, num_experts_per_tok=3,
                                                 norm_topk_prob=True)),
    }


def value(name, shape, seed, model_type):
    """Uniform numbers: FNV-1a of the name, and of each place SplitMix64."""
    start = 0xCBF29CE484222325
    for byte in name.encode():
        start = (start ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.uint64(seed) + np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = (z >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)
    if len(shape) >= 2:
        return torch.from_numpy(uniform * np.float32(0.5)).reshape(shape)
    around = 1 if name.endswith("weight") and not model_type.startswith("gemma") else 0
    return torch.from_numpy(np.float32(around) + uniform * np.float32(0.25)).reshape(shape)


def make_model(config, seed):
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config, **EAGER).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        tensors = {name: value(name, tuple(tensor.shape), seed, config.model_type) for name, tensor in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **EAGER).eval()


def generate(model, prompt):
    """The ids behind the prompt, and the smallest distance between the two largest logits."""
    with torch.no_grad():
        made = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False, return_dict_in_generate=True,
                              output_logits=True)
    logits = torch.cat(made.logits).double()
    largest = logits.topk(2).values
    return made.sequences[0, len(prompt):].tolist(), float((largest[:, 0] - largest[:, 1]).min())


def mean_loss(model, ids):
    """Over windows, each token from those before it in its window."""
    losses = []
    for first in range(0, len(ids) - 1, WINDOW):
        inputs = torch.tensor([ids[first:first + WINDOW][:len(ids) - 1 - first]])
        targets = torch.tensor(ids[first + 1:first + 1 + inputs.shape[1]])
        with torch.no_grad():
            losses.append(cross_entropy(model(inputs).logits[0].double(), targets, reduction="none"))
    return float(torch.cat(losses).mean())


def golden(name, config):
    for seed in range(50):
        model = make_model(config, seed)
        ids, margins = zip(*(generate(model, prompt) for prompt in PROMPTS))
        loss = mean_loss(model, PROMPTS[0] + ids[1])
        model.double()
        exact, _ = zip(*(generate(model, prompt) for prompt in PROMPTS))
        print(f"{name}: seed {seed}, margin {min(margins):.2g}, {[len(set(each)) for each in ids]} different tokens, "
              f"single and double precision {'agree' if ids == exact else 'differ'}")
        if ids == exact and min(margins) >= MARGIN and min(len(set(each)) for each in ids) >= 10:
            return {"config": config.to_dict(), "seed": seed, "prompts": PROMPTS, "ids": ids, "window": WINDOW, "loss": loss}
    raise SystemExit(f"{name}: no seed gives tokens that rounding cannot change")


def main():
    logging.set_verbosity_error()
    goldens = json.loads(GOLDENS.read_text()) if GOLDENS.exists() else {}
    for name, config in cases().items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            goldens[name] = golden(name, config)
    lines = [f"{json.dumps(name)}: {json.dumps(goldens[name], sort_keys=True)}" for name in cases() if name in goldens]
    GOLDENS.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
