#!/usr/bin/env python3
"""Measures how much of tensor parallelism's exchanges runs under computing: two ranks share each layer and pass microbatches layer by
layer, over a link on which exchanges take a given part of computing's time.

    bench/overlap.py [--part 0.5] [--microbatches 4] [--rounds 3] [--steps 4]

hidden = 1 - (step over that link - step over a free one) / time of the exchanges on it. Runs take turns; times are medians of steps, and the
table has medians of rounds. The same with one instruction at a time hides nothing, so it shows that the figure can fall. Needs a core
for each rank, and nothing but Python's standard library.
"""

import argparse
import copy
import statistics

from mpirun import step_seconds, train


def run_of(arguments):
    return {
        "model": {"architecture": "llama",
                  "config": {"vocab_size": 256, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
                             "num_key_value_heads": 16, "intermediate_size": 2816, "max_position_embeddings": 1024}},
        "checkpoint": "none", "data": {"path": "/usr/include/c++/**/*", "tokenizer": "bytes", "sequence_length": 1024},
        "train": {"steps": arguments.steps, "batch": arguments.microbatches, "microbatch": 1, "precision": "fp32", "threads": 1,
                  "recompute": "none"},
        "parallel": {"tensor": 2},
        "plan": {"order": "layer_major"},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=float, default=0.5, help="time of the exchanges over that of computing")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    print("| lanes | computing (s) | exchanges (s) | step, free link (s) | step, slow link (s) | hidden |\n|---|--:|--:|--:|--:|--:|")
    for lanes in ("overlapped", "serial"):
        free = run_of(arguments)
        free["plan"]["lanes"] = lanes
        first = train(2, free)
        computing = statistics.mean(rank["busy_seconds"]["compute"] for rank in first["ranks"]) / arguments.steps
        sent = first["traffic"]["all_reduce"]["planned_bytes"] / arguments.steps
        exchanges = arguments.part * computing
        slow = copy.deepcopy(free)
        slow["device"] = {"link": {"ranks": f"{round(sent / exchanges)}/s"}}
        times = [(step_seconds(train(2, free)), step_seconds(train(2, slow))) for _ in range(arguments.rounds)]
        hidden = statistics.median(1 - (b - a) / exchanges for a, b in times)
        medians = [statistics.median(column) for column in zip(*times)]
        print(f"| {lanes} | {computing:.3f} | {exchanges:.3f} | {medians[0]:.3f} | {medians[1]:.3f} | {100 * hidden:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
