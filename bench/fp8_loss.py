#!/usr/bin/env python3
"""Trains the quickstart in bf16 and in fp8, for each seed, and compares the curves of their losses.

    bench/fp8_loss.py build/strata [--steps 400] [--seeds 1 2] [--window 50] [--lr 2e-3] [--json losses.json]

The table has, for each stretch of --window steps, the mean training loss over steps and seeds, and the held-out loss behind it. Beside fp8 stands bf16 in
microbatches of 2 instead of 4. That run computes the same sums in another order: its distance from bf16 is what the smallest roundings make of a
run. Needs nothing but Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

RUNS = {"bf16": {"train.precision": "bf16"},
        "bf16, other order": {"train.precision": "bf16", "train.microbatch": 2, "train.validation_batches": 16},
        "fp8": {"train.precision": "fp8"}}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def train(strata, run, seed, arguments):
    with tempfile.TemporaryDirectory() as folder:
        settings = {**RUNS[run], "train.seed": seed, "train.steps": arguments.steps, "train.validate_every": arguments.window,
                    "optimizer.lr": arguments.lr, "checkpoint.path": f"{folder}/out", "checkpoint.every": 0,
                    "report.metrics": f"{folder}/metrics.jsonl"}
        command = [strata, "train", str(ROOT / "examples/quickstart.yaml"), "--json", f"{folder}/report.json"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        report = json.loads(pathlib.Path(folder, "report.json").read_text())
    return {"loss": report["loss"], "validation": {entry["step"]: entry["loss"] for entry in report["validation"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--json", help="file for all losses")
    arguments = parser.parse_args()

    losses = {}
    for seed in arguments.seeds:
        for run in RUNS:
            losses[run, seed] = train(arguments.strata, run, seed, arguments)
            print(f"{run} with seed {seed}: done", file=sys.stderr)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({f"{run} {seed}": values for (run, seed), values in losses.items()}))

    def row(name, of_run):
        mean = {run: statistics.fmean(of_run(losses[run, seed]) for seed in arguments.seeds) for run in RUNS}
        cells = [f"{mean[run]:.4f} ({mean[run] / mean['bf16'] - 1:+.2%})" for run in list(RUNS)[1:]]
        print(f"| {name} | {mean['bf16']:.4f} | {' | '.join(cells)} |")

    print(f"| steps | {' | '.join(RUNS)} |\n|---|--:|--:|--:|")
    for first in range(0, arguments.steps, arguments.window):
        last = min(first + arguments.window, arguments.steps)
        row(f"{first + 1} to {last}", lambda run: statistics.fmean(run["loss"][first:last]))
    for step in sorted(losses["bf16", arguments.seeds[0]]["validation"]):
        row(f"held out, after {step}", lambda run: run["validation"][step])


if __name__ == "__main__":
    main()
