"""Writes ../model/rope_goldens.json: random rope settings by a fixed seed, and what transformers makes of them.

    .venv/bin/python tests/parity/make_rope_goldens.py [--count N] [--seed S] [--out FILE]

Each case has a config.json's keys, a sequence length, and cosines and sines at some positions, one table for each kind of
layers; or `refused`, where transformers takes no such settings.
"""
import argparse
import json
import logging
import pathlib
import random

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

OUT = pathlib.Path(__file__).parent.parent / "model" / "rope_goldens.json"
FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "olmo2", "phi3", "granite", "gemma2", "gemma3_text", "mixtral", "qwen3_moe"]
SMALL = dict(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=8, vocab_size=8,
             pad_token_id=None, bos_token_id=0, eos_token_id=0)


def number(random, low, high):
    """A float, or an integer where a float is meant."""
    value = random.uniform(low, high)
    return round(value) if random.random() < 0.3 and round(value) > low else round(value, 3)


def random_settings(random, kind, pairs):
    settings = {}
    if kind in ("linear", "dynamic", "llama3", "yarn"):
        settings["factor"] = number(random, 1, 9)
    original = random.choice([4, 9, 16, 33])
    if kind in ("llama3", "yarn", "longrope") and random.random() < 0.7:
        settings["original_max_position_embeddings"] = original
    if kind == "llama3":
        settings["low_freq_factor"] = number(random, 0.5, 2)
        settings["high_freq_factor"] = settings["low_freq_factor"] + number(random, 1, 8)
    if kind == "yarn":
        for key, low, high in (("beta_fast", 2, 40), ("beta_slow", 0.2, 2), ("mscale", 0.2, 2), ("mscale_all_dim", 0.2, 2),
                               ("attention_factor", 0.3, 2)):
            if random.random() < 0.35:
                settings[key] = random.choice([number(random, low, high)] * 4 + [None])
        if random.random() < 0.3:
            settings["truncate"] = random.choice([True, False])
        if random.random() < 0.1:
            settings["factor"] = None
    if kind == "longrope":
        for key in ("short_factor", "long_factor"):
            settings[key] = [number(random, 1, 20) for _ in range(pairs)]
        for key in ("factor", "attention_factor"):
            if random.random() < 0.3:
                settings[key] = number(random, 1, 3)
    settings[random.choice(["rope_type", "rope_type", "type"])] = kind
    if random.random() < 0.5:
        settings["rope_theta"] = number(random, 50, 20000)
    return settings


def random_case(random):
    family = random.choice(FAMILIES)
    head = random.choice([4, 6, 10, 16, 32])
    config = {"model_type": family, "hidden_size": 2 * head, "head_dim": head,
              "max_position_embeddings": random.choice([20, 32, 64]), **SMALL}
    if family == "qwen3_moe":
        config.update(num_experts=2, num_experts_per_tok=1, moe_intermediate_size=4)
    rotated = head
    if family == "phi3":
        del config["head_dim"]
        if random.random() < 0.5:
            share = random.choice([0.25, 0.5, 0.75])
            if int(head * share) % 2 == 0 and int(head * share) > 0:
                config["partial_rotary_factor"] = share
                rotated = int(head * share)
    kinds = ["default", "longrope"] if family == "phi3" else ["default", "linear", "dynamic", "llama3", "yarn", "longrope"]
    if family == "gemma3_text":
        kinds.remove("longrope")
        config.update(sliding_window=5, layer_types=["sliding_attention", "full_attention"])
    if family == "gemma2":
        config.update(sliding_window=5)
    if random.random() < 0.5:
        config["rope_theta"] = number(random, 50, 20000)
    if family == "phi3" or family != "gemma3_text" and random.random() < 0.15:
        config["original_max_position_embeddings"] = random.choice([4, 12, 30])
    settings = random_settings(random, random.choice(kinds), rotated // 2)
    if family == "gemma3_text":
        settings.pop("truncate", None)  # transformers does not look at it there
        if random.random() < 0.5:
            sliding = random_settings(random, random.choice(kinds), rotated // 2)
            sliding.pop("truncate", None)
            config["rope_parameters"] = {"full_attention": settings, "sliding_attention": sliding}
        else:
            # Beside a default rope_type an old type would not count.
            config["rope_scaling"] = {"rope_type" if key == "type" else key: value for key, value in settings.items()}
            if random.random() < 0.5:
                config["rope_local_base_freq"] = number(random, 50, 20000)
    else:
        config[random.choice(["rope_scaling", "rope_parameters"])] = settings
    return {"config": config, "sequence": random.choice([8, 21, 40, 70])}


def tables_of(case):
    """[cosines, sines] of half a head's rotated columns at some positions, for each kind of layers."""
    keys = json.loads(json.dumps(case["config"]))
    config = AutoConfig.for_model(keys.pop("model_type"), **keys)
    rotary = AutoModelForCausalLM.from_config(config, dtype=torch.float32).model.rotary_emb
    positions = torch.arange(case["sequence"])[None]
    kinds = ["full_attention", "sliding_attention"] if config.model_type == "gemma3_text" else [None]
    tables = []
    for kind in kinds:
        named = {} if kind is None else {"layer_type": kind}
        cosine, sine = rotary(torch.zeros(1, 1), positions, **named)
        half = cosine.shape[-1] // 2
        tables.append([[table[0, at, :half].tolist() for at in case["positions"]] for table in (cosine, sine)])
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=54)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    options = parser.parse_args()
    transformers_logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    generator = random.Random(options.seed)
    cases = []
    for _ in range(options.count):
        case = random_case(generator)
        case["positions"] = [1, case["sequence"] - 1]
        try:
            case["tables"] = [[[[float(f"{value:.8g}") for value in row] for row in rows] for rows in table]
                              for table in tables_of(case)]
        except Exception as error:  # whatever transformers says to settings that it does not take
            case["refused"] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        cases.append(case)
    options.out.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases, {sum('refused' in case for case in cases)} refused")


if __name__ == "__main__":
    main()
