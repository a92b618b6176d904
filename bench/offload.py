#!/usr/bin/env python3
"""Trains one run file with ever less host memory, the rest on drives, and prints each step's time against the run that has all it wants
and against the bound of the machine.

    bench/offload.py --folder /scratch examples/gpt2-124m.yaml [--host 1GiB 512MiB …] [--batch 32 4] [--limit 500MB/s] [--steps 5] [--rounds 3]

Rounds go through all runs in turn; medians over the rounds are printed, and ratios within a round. A step's time is the mean over
the steps of a run, from the first one's start to the last one's end: steps overlap, so that their reports are not evenly spaced. The
machine's rates, and so the bound, are each run's own measurement; --limit makes the drive's the same in all. Needs nothing but
Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys


def train(arguments, batch, host, steps):
    settings = {
        "train.batch": batch,
        "train.steps": steps,
        "optimizer.schedule.warmup": 1,
        "train.validate_every": 0,
        "memory.host": host or "unlimited",
    }
    if host:
        settings["memory.nvme.path"] = arguments.folder
        settings["memory.placement.optimizer_state"] = arguments.optimizer_state
        if arguments.limit:
            settings["memory.nvme.limit"] = f"{{read: {arguments.limit}, write: {arguments.limit}}}"
    command = [arguments.strata, "train", arguments.run_file, "--set", "checkpoint=none", "--json", "-"]
    for key, value in {**settings, **dict(pair.split("=", 1) for pair in arguments.set)}.items():
        command += ["--set", f"{key}={value}"]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{process.stderr}")
    report = json.loads(process.stdout)
    seconds = statistics.mean(report["step_seconds"]) + statistics.mean(report["drain_seconds"])
    return {
        "seconds": seconds,
        "bound": report["bound_seconds"],
        "bound_by": report["bound_by"],
        "host": report["memory"]["host"]["measured_peak_bytes"],
        "read": report["traffic"]["nvme_read"]["measured_bytes"] / steps,
        "written": report["traffic"]["nvme_write"]["measured_bytes"] / steps,
        "hash": report["state_hash"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_file")
    parser.add_argument("--folder", required=True, help="on the drive to use")
    parser.add_argument("--host", nargs="+", default=["1GiB"], help="host budgets")
    parser.add_argument("--limit", help="fastest reading and writing of the drive, as 500MB/s")
    parser.add_argument("--optimizer-state", default="auto", help="where: nvme, or auto: what host memory has no room for")
    parser.add_argument("--batch", nargs="+", type=int, default=[32], help="sequences per step")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for every run")
    parser.add_argument("--strata", default=str(pathlib.Path(__file__).parent.parent / "build/strata"))
    arguments = parser.parse_args()

    print("| batch | host | read, written | s/step | / resident | bound | / bound |")
    print("|---|---|---|---|---|---|---|")
    for batch in arguments.batch:
        runs = {host: [] for host in [None, *arguments.host]}
        for _ in range(arguments.rounds):
            for host in runs:
                runs[host].append(train(arguments, batch, host, arguments.steps))
        hashes = {run["hash"] for rounds in runs.values() for run in rounds}
        if len(hashes) != 1:
            sys.exit(f"the state differs: {hashes}")
        for host, rounds in runs.items():
            median = lambda values: statistics.median(list(values))
            to_resident = median(run["seconds"] / other["seconds"] for run, other in zip(rounds, runs[None]))
            first = rounds[0]
            print(f"| {batch} | {first['host'] / 2**20:.0f} MiB | {first['read'] / 2**20:.0f}, {first['written'] / 2**20:.0f} MiB "
                  f"| {median(run['seconds'] for run in rounds):.3f} | {to_resident:.2f} "
                  f"| {median(run['bound'] for run in rounds):.3f} by {first['bound_by']} "
                  f"| {median(run['seconds'] / run['bound'] for run in rounds):.2f} |", flush=True)


if __name__ == "__main__":
    main()
