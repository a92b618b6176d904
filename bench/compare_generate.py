#!/usr/bin/env python3
"""Generates with strata and with transformers from the same prompts, by turns: compare_generate.py [OPTION...] MODEL...

MODEL is a Hugging Face folder without a tokenizer, whose tokens are bytes, or with one (--tokenizer model). Greedy, in fp32 on the
CPU. For each model a line: whether all tokens are equal, and the tokens per second of both, the median over --rounds with the
least and the most. Exit status 1 if a token differs. Needs the packages of tests/parity/requirements.txt."""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging


def run_strata(arguments, model):
    command = [arguments.strata, "generate", model, "--precision", "fp32", "--threads", str(arguments.threads), "--json", "-",
               "--max-tokens", str(arguments.tokens), "--prompt", arguments.prompt]
    if arguments.tokenizer == "bytes":
        command += ["--tokenizer", "bytes"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    made = report["continuations"][0]
    return made["prompt_ids"], made["ids"], report["tokens_per_second"]


def run_transformers(arguments, model, prompt):
    """The ids behind the prompt, and the tokens per second behind the first."""
    ids = torch.tensor([prompt])
    stop = {"eos_token_id": 0} if arguments.tokenizer == "bytes" else {}
    with torch.no_grad():
        start = time.perf_counter()
        model.generate(ids, max_new_tokens=1, do_sample=False, pad_token_id=0, **stop)
        first = time.perf_counter() - start
        start = time.perf_counter()
        made = model.generate(ids, max_new_tokens=arguments.tokens, do_sample=False, pad_token_id=0, **stop)[0, len(prompt):].tolist()
        seconds = time.perf_counter() - start - first
    return made, (len(made) - 1) / seconds


def spread(rates):
    return f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--strata", default="build/strata")
    parser.add_argument("--tokenizer", choices=["bytes", "model"], default="bytes")
    parser.add_argument("--prompt", default="template <typename ")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    differs = False
    for folder in arguments.models:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            prompt, ids, rate = run_strata(arguments, folder)
            ours.append(rate)
            expected, rate = run_transformers(arguments, model, prompt)
            theirs.append(rate)
        equal = ids == expected
        differs |= not equal
        print(f"{folder} ({model.config.model_type}, {model.num_parameters() / 1e6:.1f} M): {len(ids)} tokens "
              f"{'equal' if equal else 'DIFFER'}, {len(set(ids))} different ones; tokens/s {spread(ours)}, "
              f"transformers {spread(theirs)}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
