"""Writes ../model/number_forms.json: whole numbers of a config.json as integers and as floats, and which transformers reads.

    .venv/bin/python tests/parity/make_number_forms.py

For every family, every key with a number, those of rope settings too, is given once as 2 and once as 2.0. Listed are the keys
whose two forms transformers reads as one model, by a training step, and the keys that it reads in one form alone.
"""
import json
import pathlib
import tempfile

import torch
from list_config_keys import EXPERT_VALUES, FAMILIES, LINEAR, LLAMA3, LONG, OF_8, Family
from transformers.utils import logging

OUTPUT = pathlib.Path(__file__).parent.parent / "model" / "number_forms.json"
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "attention_factor": 2.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 2.0, "mscale_all_dim": 3.0, "original_max_position_embeddings": 8}
ROPES = [{"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 1.0}, LLAMA3, YARN, {**LINEAR, "rope_theta": 50.0},
         {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 50.0}, {**LONG, **OF_8, "factor": 8.0, "attention_factor": 2.0}]
# What no class has among its defaults, or has as nothing.
OTHERS = {"rope_theta": 50.0, "rope_local_base_freq": 50.0, "partial_rotary_factor": 1.0, "pad_token_id": 3, "head_dim": 4, "n_inner": 24,
          "sliding_window": 4, "sliding_window_pattern": 2, "original_max_position_embeddings": 8, "router_aux_loss_coef": 1.0}


def numbers_of(config_class, config):
    """By key, a whole number that the key may have."""
    numbers = {}
    for key, value in {**config_class().to_dict(), **OTHERS, **config}.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[key] = int(config.get(key, OTHERS.get(key, 1 if isinstance(value, float) else value)))
    return {key: 0 if key.endswith(("pdrop", "dropout")) else number for key, number in numbers.items()}


def changes_of(config_class, config):
    """Changes of a file with an integer in them, and the place of that integer."""
    for key, number in numbers_of(config_class, config).items():
        yield {key: number}, [key]
    for rope in ROPES:
        for key, value in rope.items():
            if isinstance(value, (int, float)):
                yield {"rope_parameters": {**rope, key: int(value)}}, ["rope_parameters", key]
            elif isinstance(value, list):
                yield {"rope_parameters": {**rope, key: [int(each) for each in value]}}, ["rope_parameters", key]


def with_floats(changes, place):
    if not place:
        return [float(each) for each in changes] if isinstance(changes, list) else float(changes)
    return {**changes, place[0]: with_floats(changes[place[0]], place[1:])}


def main():
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    result = {}
    for model_type, (config_class, config) in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            family = Family(model_type, config_class, config, pathlib.Path(folder))
            result[model_type] = {"config": family.config, "both": [], "integer": [], "float": []}
            for whole, place in changes_of(config_class, config):
                real = with_floats(whole, place)

                def step(changes):
                    try:
                        return family.step(changes)
                    except Exception:  # pylint: disable=broad-except
                        return None
                left, right = step(whole), step(real)
                if left is None and right is None:
                    continue
                which = "float" if left is None else "integer" if right is None else "both"
                if which == "both" and not Family.equal(left, right):
                    raise SystemExit(f"{model_type}: {whole} is another model than {real}")
                result[model_type][which].append({"changes": whole, "place": "/" + "/".join(place)})
        counts = {which: len(found) for which, found in result[model_type].items() if which != "config"}
        print(model_type, counts, flush=True)
    OUTPUT.write_text(json.dumps(result).replace('{"changes"', '\n{"changes"') + "\n")


if __name__ == "__main__":
    main()
