#!/usr/bin/env python3
"""Trains the quickstart in bf16 and in fp8, for each seed, and compares the curves of their losses.

    bench/fp8_loss.py build/strata [--steps 400] [--seeds 1 2] [--window 50] [--json losses.json]

The table has, for each stretch of --window steps, the mean training loss over steps and seeds, and the held-out loss behind it; and how far fp8 is above
bf16. Two seeds of bf16 differ, too: their distance is beside it. Needs nothing but Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def train(strata, precision, seed, arguments):
    with tempfile.TemporaryDirectory() as folder:
        settings = {"train.precision": precision, "train.seed": seed, "train.steps": arguments.steps, "train.validate_every": arguments.window,
                    "checkpoint.path": f"{folder}/out", "checkpoint.every": 0, "report.metrics": f"{folder}/metrics.jsonl"}
        command = [strata, "train", str(ROOT / "examples/quickstart.yaml"), "--json", f"{folder}/report.json"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        report = json.loads(pathlib.Path(folder, "report.json").read_text())
    assert report["precision"] == precision, report["precision"]
    return {"loss": report["loss"], "validation": {entry["step"]: entry["loss"] for entry in report["validation"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--window", type=int, default=50)
    parser.add_argument("--json", help="file for all losses")
    arguments = parser.parse_args()

    runs = {}
    for seed in arguments.seeds:
        for precision in ("bf16", "fp8"):
            runs[precision, seed] = train(arguments.strata, precision, seed, arguments)
            print(f"{precision} with seed {seed}: done", file=sys.stderr)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({f"{precision} {seed}": run for (precision, seed), run in runs.items()}))

    def mean(precision, of_run):
        return statistics.fmean(of_run(runs[precision, seed]) for seed in arguments.seeds)

    def row(name, of_run):
        bf16, fp8 = mean("bf16", of_run), mean("fp8", of_run)
        each = [of_run(runs["bf16", seed]) for seed in arguments.seeds]
        apart = (max(each) - min(each)) / bf16
        print(f"| {name} | {bf16:.4f} | {fp8:.4f} | {fp8 / bf16 - 1:+.2%} | {apart:.2%} |")

    print("| steps | bf16 | fp8 | fp8 above bf16 | seeds of bf16 apart |\n|---|--:|--:|--:|--:|")
    for first in range(0, arguments.steps, arguments.window):
        last = min(first + arguments.window, arguments.steps)
        row(f"{first + 1} to {last}", lambda run: statistics.fmean(run["loss"][first:last]))
    for step in sorted(runs["bf16", arguments.seeds[0]]["validation"]):
        row(f"held out, after {step}", lambda run: run["validation"][step])


if __name__ == "__main__":
    main()
