#!/usr/bin/env python3
"""Measures how long the stages of a pipeline are idle with one model, and with several that are trained at once and fill one another's
bubbles. The device computes slowly (device.flops), so that the ranks have room beside one another on two cores.

    bench/models_pipeline.py [--stages 2] [--models 4] [--microbatches 8] [--slower 8] [--schedule 1f1b] [--steps 3]

Idle is the share of the first rank's time in which its lane compute does nothing, of --steps steps: the time by which
a run with that number of further steps takes longer. Planned is the same of the timelines that chose the plan. Each model's state hash is compared with that of its run alone. Needs
nothing but Python's standard library.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import bubble
from mpirun import ROOT, train


def run_of(arguments, rate, models, steps):
    run = bubble.run_of(arguments)
    run["model"]["config"]["num_hidden_layers"] = 4 * arguments.stages  # the head adds little to the last stage
    run["train"]["steps"] = steps
    run["parallel"]["schedule"] = arguments.schedule
    run["device"] = {"flops": rate / arguments.slower}
    run["memory"] = {"device": "unlimited", "host": "unlimited"}
    run["sweep"] = {"train.seed": list(range(1, models + 1))}
    return run


def planned(run):
    """Idle share of the first role by its timeline, and the order of turns."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.yaml"
        file.write_text(json.dumps(run))
        command = [ROOT / "build/strata", "plan", file, "--json", "-"]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return 1 - report["computing_share"], next(order["name"] for order in report["turn_sequences"] if order["chosen"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--slower", type=float, default=8)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    alone = bubble.run_of(arguments)
    alone["parallel"] = {}
    alone["train"]["steps"] = 2
    report = train(1, alone)
    rate = 2 * report["flops"]["executed"] / report["ranks"][0]["busy_seconds"]["compute"]
    print(f"{rate / 1e9:.0f} GFLOP/s of a core, slowed to {rate / arguments.slower / 1e9:.1f}; {arguments.schedule}, {arguments.stages} "
          f"stages, {arguments.microbatches} microbatches; bubble by formula "
          f"{1 - 1 / (1 + bubble.formula(arguments.schedule, arguments.stages, arguments.microbatches)):.1%}\n")
    print("| models | order of turns | planned idle | measured idle | a round (s) |\n|--:|---|--:|--:|--:|")
    for models in (1, arguments.models):
        share, order = planned(run_of(arguments, rate, models, 1))
        short, long = (train(arguments.stages, run_of(arguments, rate, models, steps)) for steps in (1, 1 + arguments.steps))
        seconds = long["seconds"] - short["seconds"]
        busy = long["busy_seconds"]["compute"] - short["busy_seconds"]["compute"]
        print(f"| {models} | {order} | {share:.1%} | {1 - busy / seconds:.1%} | {seconds / arguments.steps:.3f} |", flush=True)
    for seed, model in enumerate(long["models"], 1):
        run = run_of(arguments, rate, 1, 1 + arguments.steps)
        del run["sweep"], run["device"]
        run["train"]["seed"] = seed
        if train(arguments.stages, run)["state_hash"] != model["state_hash"]:
            sys.exit(f"seed {seed}: the state is not that of the run alone")
    print(f"\nAll {arguments.models} have the state hashes of their runs alone.")


if __name__ == "__main__":
    main()
