#!/usr/bin/env python3
"""Runs two training commands in turn, A B A B …, and prints medians and the median of the pairwise ratios.

Each command prints one JSON object with "tokens_per_second" and "step_seconds" to standard output, as `strata train
--json -` and bench/pytorch_train.py do. Peak memory is the operating system's own figure for each process. Pairing
cancels the drift of a noisy machine: quote the ratios. Needs nothing but Python's standard library.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys


def run(command):
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"failed with status {process.returncode}: {command}")
    report = json.loads(output)
    seconds = report["step_seconds"]
    return {
        "step_seconds": statistics.median(seconds[1:] if len(seconds) > 1 else seconds),
        "tokens_per_second": report["tokens_per_second"],
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", required=True, help="command A")
    parser.add_argument("--b", required=True, help="command B")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    rows = []
    for index in range(arguments.rounds):
        pair = (run(arguments.a), run(arguments.b))
        rows.append(pair)
        print(f"round {index + 1}: A {pair[0]['step_seconds']:.3f} s  B {pair[1]['step_seconds']:.3f} s  "
              f"A/B {pair[0]['step_seconds'] / pair[1]['step_seconds']:.3f}", file=sys.stderr)

    print(f"A: {arguments.a}\nB: {arguments.b}\n")
    print("| figure | A (median) | B (median) | A/B (median of ratios) | min | max |")
    print("|---|---|---|---|---|---|")
    for figure in ("step_seconds", "tokens_per_second", "peak_bytes"):
        ratios = [a[figure] / b[figure] for a, b in rows]
        a, b = (statistics.median(pair[side][figure] for pair in rows) for side in (0, 1))
        print(f"| {figure} | {a:.4g} | {b:.4g} | {statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
