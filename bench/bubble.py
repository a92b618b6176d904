#!/usr/bin/env python3
"""Measures how long the stages of a pipeline are idle under 1f1b and under zero_bubble, in equal memory. The device computes slowly
(device.flops), so that four ranks have room beside one another on two cores.

    bench/bubble.py [--stages 4] [--microbatches 8] [--slower 8] [--rounds 5] [--steps 4]

Computing takes --slower times as long as it would. Idle is a rank's time of a step less that of its lane compute, without the first step;
the formulas are those of docs/explanation/pipelines.md, of as much computing. Runs take turns; the table has medians of rounds. Needs nothing but Python's
standard library.
"""

import argparse
import copy
import statistics

from mpirun import train

SCHEDULES = ("1f1b", "zero_bubble")


def run_of(arguments):
    return {
        "model": {"architecture": "llama",
                  "config": {"vocab_size": 256, "hidden_size": 256, "num_hidden_layers": 2 * arguments.stages, "num_attention_heads": 4,
                             "num_key_value_heads": 4, "intermediate_size": 704, "max_position_embeddings": 256}},
        "checkpoint": "none", "data": {"path": "/usr/include/c++/**/*", "tokenizer": "bytes", "sequence_length": 256},
        "train": {"steps": arguments.steps, "batch": arguments.microbatches, "microbatch": 1, "precision": "fp32", "threads": 1,
                  "recompute": "none"},
        "parallel": {"pipeline": arguments.stages},
    }


def formula(schedule, stages, microbatches):
    """Idle time over computing, of each stage."""
    idle = {"1f1b": 3 * (stages - 1), "zero_bubble": stages - 1 + max(0, stages - microbatches)}
    return idle[schedule] / (3 * microbatches)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--slower", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    alone = run_of(arguments)
    alone["parallel"] = {}
    alone["train"]["steps"] = 2
    report = train(1, alone)
    rate = 2 * report["flops"]["executed"] / report["ranks"][0]["busy_seconds"]["compute"]
    run = run_of(arguments)
    run["device"] = {"flops": rate / arguments.slower}
    found = {schedule: [] for schedule in SCHEDULES}
    peak = None
    for _ in range(arguments.rounds):
        for schedule in SCHEDULES:
            one = copy.deepcopy(run)
            one["parallel"]["schedule"] = schedule
            if peak is not None:
                one["memory"] = {"device": peak, "host": "unlimited"}
            report = train(arguments.stages, one)
            peaks = [rank["memory"]["device"]["measured_peak_bytes"] for rank in report["ranks"]]
            if peak is None:
                peak = max(peaks)
            step = statistics.mean(report["step_seconds"][1:])
            busy = [rank["busy_seconds"]["compute"] / arguments.steps for rank in report["ranks"]]
            found[schedule].append((step, [step - each for each in busy], busy, max(peaks)))
    print(f"{rate / 1e9:.0f} GFLOP/s of a core, slowed to {rate / arguments.slower / 1e9:.1f}; each rank has {peak / 2**20:.1f} MiB\n")
    print("| schedule | step (s) | idle of each stage (s) | idle / computing | by formula | largest peak (MiB) |\n|---|--:|--:|--:|--:|--:|")
    for schedule, rounds in found.items():
        step = statistics.median(each[0] for each in rounds)
        idle = [statistics.median(each[1][stage] for each in rounds) for stage in range(arguments.stages)]
        busy = [statistics.median(each[2][stage] for each in rounds) for stage in range(arguments.stages)]
        print(f"| {schedule} | {step:.3f} | {', '.join(f'{each:.3f}' for each in idle)} | {sum(idle) / sum(busy):.3f} "
              f"| {formula(schedule, arguments.stages, arguments.microbatches):.3f} | {max(each[3] for each in rounds) / 2**20:.1f} |")


if __name__ == "__main__":
    main()
