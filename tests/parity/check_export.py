"""Loads a folder that strata exported with transformers, or its adapters with PEFT, and compares its logits with a golden's.

    .venv/bin/python tests/parity/check_export.py EXPORTED_FOLDER tests/parity/goldens/NAME [--weights initial]

`trained` (the default) expects the golden's weights after its fp32 steps, `initial` those that it started from. Passes
where the largest difference of two logits is at most 1e-4 of the largest logit; exit status 1 otherwise.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

TOLERANCE = 1e-4


def load(folder):
    """The model, or an exit where a tensor is missing, left over or of another shape."""
    model, loading = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", experts_implementation="eager",
                                                          dtype=torch.float32, output_loading_info=True)
    problems = {what: sorted(map(str, names)) for what, names in loading.items() if names}
    if problems:
        sys.exit(f"{folder} does not match its own config.json: {problems}")
    return model.eval()


def load_adapters(folder, golden):
    return PeftModel.from_pretrained(load(golden / "model"), folder).eval()


def load_golden(golden, weights):
    if (golden / "adapter").exists():
        if weights == "initial":
            return load_adapters(golden / "adapter", golden)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(golden / "adapter" / "adapter_config.json", folder)
            trained = {f"base_model.model.{name}": tensor for name, tensor in load_file(golden / "weights.safetensors").items()}
            save_file(trained, pathlib.Path(folder) / "adapter_model.safetensors", metadata={"format": "pt"})
            return load_adapters(folder, golden)
    if weights == "initial":
        return load(golden / "model")
    # Its weights have the names of files, which those in memory are made from: a layer's experts are one tensor there.
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(golden / "model" / "config.json", folder)
        save_file(load_file(golden / "weights.safetensors"), pathlib.Path(folder) / "model.safetensors",
                  metadata={"format": "pt"})
        return load(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exported", type=pathlib.Path)
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--weights", choices=["trained", "initial"], default="trained")
    arguments = parser.parse_args()
    logging.disable_progress_bar()

    sequence = json.loads((arguments.golden / "golden.json").read_text())["sequence_length"]
    windows = np.fromfile(arguments.golden / "tokens.bin", dtype=np.uint16).reshape(-1, sequence + 1)
    tokens = torch.from_numpy(windows[:8, :-1].astype(np.int64))
    with torch.no_grad():
        has_adapters = (arguments.exported / "adapter_config.json").exists()
        model = load_adapters(arguments.exported, arguments.golden) if has_adapters else load(arguments.exported)
        logits = model(input_ids=tokens, use_cache=False).logits
        expected = load_golden(arguments.golden, arguments.weights)(input_ids=tokens, use_cache=False).logits
    difference = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"{arguments.exported}: logits differ by {difference:.1e} of the largest")
    if not difference <= TOLERANCE:
        sys.exit(1)


if __name__ == "__main__":
    main()
