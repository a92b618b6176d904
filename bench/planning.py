#!/usr/bin/env python3
"""CPU seconds (user and system, by getrusage) of `strata plan` on Llama 70B's shape over layers x microbatches x tiers.

    bench/planning.py [--strata build/strata] [--before OLD] [--grid 80x16 80x64 …] [--ranks 8]

Nothing is left out: the run file is read, orders and recomputation are chosen, the program is placed and checked. --before times another
build beside it. Needs nothing but Python's standard library.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import tempfile

TIERS = {
    "device 80 GiB, host 64 TiB": {"device": "80GiB", "host": "64TiB"},
    "device 80 GiB, host 512 GiB, drives 64 TiB": {"device": "80GiB", "host": "512GiB", "nvme": {"size": "64TiB"}},
    "device 80 GiB, host 4 GiB: refused": {"device": "80GiB", "host": "4GiB"},
}


def run_file(layers, microbatches, memory, ranks):
    config = {"num_hidden_layers": layers, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
              "intermediate_size": 28672, "vocab_size": 128256}
    return json.dumps({
        "model": {"architecture": "llama", "config": config},
        "data": {"path": ["tokens.bin"], "tokenizer": "none", "sequence_length": 4096},
        "train": {"steps": 10, "batch": microbatches * ranks, "microbatch": 1},
        "parallel": {"data": ranks},
        "memory": memory,
    })


def plan(strata, path):
    """Its CPU seconds, and what it says of the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run([strata, "plan", path], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = re.search(r"program +(\d+) instructions, (\d+) buffers", answer.stdout)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, size.groups() if size else ("refused", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/strata")
    parser.add_argument("--before")
    parser.add_argument("--grid", nargs="*", default=["16x16", "80x16", "80x32", "80x64", "126x64", "80x256", "80x512"])
    parser.add_argument("--ranks", type=int, default=1, help="in stage 3; microbatches are those of each")
    arguments = parser.parse_args()
    print("| tiers | layers x microbatches | instructions | buffers | CPU s |" + (" before |" if arguments.before else ""))
    print("|---|--:|--:|--:|--:|" + ("--:|" if arguments.before else ""))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        for name, memory in TIERS.items():
            if "nvme" in memory:
                memory = {**memory, "nvme": {**memory["nvme"], "path": [folder]}}
            for cell in arguments.grid:
                layers, microbatches = map(int, cell.split("x"))
                pathlib.Path(path).write_text(run_file(layers, microbatches, memory, arguments.ranks))
                seconds, (instructions, buffers) = plan(arguments.strata, path)
                line = f"| {name} | {layers} x {microbatches} | {instructions} | {buffers} | {seconds:.2f} |"
                if arguments.before:
                    line += f" {plan(arguments.before, path)[0]:.1f} |"
                print(line, flush=True)


if __name__ == "__main__":
    main()
