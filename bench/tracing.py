#!/usr/bin/env python3
"""Measures what tracing costs on a model whose steps are short: many instructions a second are the worst case.

    bench/tracing.py [--rounds 3] [--steps 2000] [--hidden 256] [--layers 4]

Within one run blocks of steps are traced and not traced by turns, since processes differ by more than what is looked for. A block's step is
the median of its own without the first, under which the block before is still written. The table has the median over all blocks of
each kind, and of the ratios of a traced block to the mean of its neighbours. Needs Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

BLOCK = 10  # steps
ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_of(arguments):
    return {
        "model": {"architecture": "llama",
                  "config": {"vocab_size": 256, "hidden_size": arguments.hidden, "num_hidden_layers": arguments.layers,
                             "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 3 * arguments.hidden,
                             "max_position_embeddings": 256}},
        "checkpoint": "none", "data": {"path": "/usr/include/c++/**/*", "tokenizer": "bytes", "sequence_length": arguments.sequence},
        "train": {"steps": arguments.steps, "batch": 4, "microbatch": 1, "precision": "fp32"},
        "memory": {"device": arguments.device},
    }


def blocks_of(folder, run):
    """The seconds of a step in each block, and the bytes of a step in the trace."""
    run_file, trace = folder / "run.yaml", folder / "trace.pftrace"
    trace.unlink(missing_ok=True)
    traced = range(BLOCK, run["train"]["steps"], 2 * BLOCK)
    run["report"] = {"trace": {"path": str(trace), "steps": [f"{first + 1}-{first + BLOCK}" for first in traced]}}
    run_file.write_text(json.dumps(run))
    subprocess.run([ROOT / "build/strata", "train", run_file, "--json", folder / "report.json"], check=True, capture_output=True)
    steps = json.loads((folder / "report.json").read_text())["step_seconds"]
    blocks = [statistics.median(steps[first + 1:first + BLOCK]) for first in range(0, len(steps) - BLOCK + 1, BLOCK)]
    return blocks, trace.stat().st_size / (BLOCK * len(traced))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--device", default="unlimited", help="budget of the device; less makes more instructions")
    arguments = parser.parse_args()
    plain, traced, ratios = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(arguments.rounds):
            blocks, trace_bytes = blocks_of(pathlib.Path(name), run_of(arguments))
            plain += blocks[2::2]  # the first steps warm up
            traced += blocks[1::2]
            ratios += [blocks[b] / statistics.mean([blocks[b - 1], blocks[b + 1]]) for b in range(3, len(blocks) - 1, 2)]
    quartiles = statistics.quantiles(ratios, n=4)
    print("| step, not traced (ms) | step, traced (ms) | traced / not, median | quartiles | blocks | trace of a step (KiB) |\n|--:|--:|--:|--:|--:|--:|")
    print(f"| {1000 * statistics.median(plain):.2f} | {1000 * statistics.median(traced):.2f} | **{quartiles[1]:.4f}** "
          f"| {quartiles[0]:.3f} to {quartiles[2]:.3f} | {len(ratios)} | {trace_bytes / 1024:.0f} |")


if __name__ == "__main__":
    main()
