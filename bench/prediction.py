#!/usr/bin/env python3
"""Compares the time of a step that strata explain predicts with what training takes, over models, budgets, links, recomputation, orders
and ranks. Profiles of the machine come first, one for each model and link (strata doctor RUN.yaml --profile); no run is measured before
its prediction is made.

    bench/prediction.py --out FOLDER [--models llama-10m …] [--steps 6] [--rounds 1]

Writes FOLDER/prediction.csv, a row for each case, and prints the median and the 90th percentile of |predicted / measured - 1|. Measured
is the median of a run's steps after the second, and of rounds. FOLDER keeps profiles and rows: the same command goes on. Times need a
machine on which nothing else runs. Needs nothing but Python's standard library.
"""

import argparse
import csv
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

import memory_runs
import timed_runs
from memory_design import gpt2, llama

# With samples of a step and tokens of each: steps of a second or so on two cores.
MODELS = {
    "llama-26m": (llama(512, 8, 8, 4, 1408), 8, 256),
    "llama-45m": (llama(640, 10, 10, 5, 1728), 8, 256),
    "gpt2-124m": (gpt2(50257, 768, 12, 12), 4, 256),
    "gpt2-355m": (gpt2(50257, 1024, 24, 16), 4, 128),
}
SMALL = ("llama-26m", "llama-45m")
KNOBS = {
    "budget": ["1", "1/2", "1/4", "1/8"],
    "link": ["full", "1GB/s"],
    "recompute": ["auto", "full"],
    "order": ["auto", "microbatch_major"],
    "state": ["host", "500MB/s"],
    "ranks": [1, 2],
}


def cases(models):
    """All budgets, over each link; of small models with each other knob changed by itself. Ranks come last."""
    runs = []
    for model, budget, link in itertools.product(models, KNOBS["budget"], KNOBS["link"]):
        base = {"model": model, "budget": budget, "link": link, "recompute": "auto", "order": "auto", "state": "host", "ranks": 1}
        runs.append(base)
        if model in SMALL:
            runs += [base | {knob: KNOBS[knob][1]} for knob in ("recompute", "order", "state", "ranks")]
    return sorted(runs, key=lambda run: run["ranks"])


def run_of(case, device, arguments, profile=None):
    (architecture, config), batch, sequence = MODELS[case["model"]]
    run = {
        "model": {"architecture": architecture, "config": config},
        "checkpoint": "none", "data": {"path": "/usr/share/common-licenses/*", "tokenizer": "bytes", "sequence_length": sequence},
        "train": {"steps": arguments.steps, "batch": batch, "microbatch": batch // 4, "precision": "bf16", "recompute": case["recompute"]},
        "optimizer": {"lr": 1e-4, "schedule": {"warmup": 1}},
        "parallel": {"data": case["ranks"]},
        "plan": {} if case["order"] == "auto" else {"order": case["order"]},
        "memory": {"device": device, "host": "unlimited"},
    }
    if case["link"] != "full":
        run["device"] = {"link": {"h2d": case["link"], "d2h": case["link"]}}
    if case["state"] != "host":
        drives = arguments.out / "drive"
        drives.mkdir(exist_ok=True)
        run["memory"] |= {"placement": {"optimizer_state": "nvme"},
                          "nvme": {"path": str(drives), "limit": {"read": case["state"], "write": case["state"]}}}
    if profile:
        run["plan"]["machine"] = str(profile)
    return run


def command(strata, *words):
    process = subprocess.run([strata, *words], capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {process.stderr}")


def profile_of(case, arguments):
    """Of a rank: ranks share the cores."""
    name = "-".join(str(case[knob]) for knob in ("model", "link", "state", "ranks")).replace("/", "")
    profile, file = arguments.out / f"{name}.json", arguments.out / f"{name}.yaml"
    if not profile.exists():
        run = run_of(case | {"ranks": 1}, "unlimited", arguments)
        if case["ranks"] > 1:
            run["train"]["threads"] = 1
        file.write_text(json.dumps(run))
        command(arguments.strata, "doctor", file, "--profile", profile)
    return profile


def budget_of(case, arguments):
    """A part of what the run needs that has all on the device, or the smallest budget that works."""
    resident = run_of(case | {"recompute": "none", "state": "host"}, "64GiB", arguments) | {"memory": {"device": "64GiB"}}
    need = memory_runs.plan(arguments.strata, resident)["memory"]["device"]["planned_peak_bytes"]
    numerator, denominator = (case["budget"] + "/1").split("/")[:2]
    budget = need * int(numerator) // int(denominator)
    try:
        memory_runs.plan(arguments.strata, run_of(case, budget, arguments))
        return budget
    except memory_runs.Refused as refused:
        return refused.smallest_device_bytes


def measure(case, arguments):
    profile = profile_of(case, arguments)
    run = run_of(case, budget_of(case, arguments), arguments, profile)
    file, explained = arguments.out / "run.yaml", arguments.out / "explained.json"
    file.write_text(json.dumps(run))
    command(arguments.strata, "explain", file, "--json", explained)
    predicted = json.loads(explained.read_text())["now"]["step_seconds"]
    measured = statistics.median(timed_runs.step_seconds(arguments.strata, run, case["ranks"]) for _ in range(arguments.rounds))
    return case | {"device_bytes": run["memory"]["device"], "predicted_seconds": round(predicted, 5), "measured_seconds": round(measured, 5),
                   "error": round(predicted / measured - 1, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    arguments = timed_runs.parse(parser)
    table = arguments.out / "prediction.csv"
    rows = list(csv.DictReader(table.open())) if table.exists() else []
    for case in cases(arguments.models):
        if any(all(row[knob] == str(value) for knob, value in case.items()) for row in rows):
            continue
        row = measure(case, arguments)
        with table.open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if not rows:
                writer.writeheader()
            writer.writerow(row)
        rows.append({key: str(value) for key, value in row.items()})
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    errors = sorted(abs(float(row["error"])) for row in rows)
    print(f"{len(errors)} cases: median |error| {statistics.median(errors):.3f}, "
          f"90th percentile {errors[min(len(errors) - 1, round(0.9 * (len(errors) - 1)))]:.3f}, largest {errors[-1]:.3f}")


if __name__ == "__main__":
    main()
