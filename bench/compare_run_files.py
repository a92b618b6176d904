#!/usr/bin/env python3
"""Plans every run file of examples/ and bench/runs/ with two builds of strata, at three device budgets, in fp32 and bf16, for one
rank and for two in stage 3, and prints what each needs and moves.

    bench/compare_run_files.py OLD NEW [--recompute full none auto]

Budgets are parts of what the old build takes if it may take all that the run file's host leaves: all, a half, a quarter. A line with
`=` is equal in every figure; otherwise figures are old -> new. The exit status is 1 if, with activations recomputed or saved as told, a new
plan is refused or has a larger peak or moves more. Needs nothing but Python's standard library."""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIERS, LINKS = ("device", "host", "nvme"), ("h2d", "d2h", "nvme_read", "nvme_write", "all_gather", "reduce_scatter", "all_reduce")


def plan(strata, run_file, settings):
    """Figures by name, or None if the run is refused."""
    command = [strata, "plan", str(run_file), "--json", "-", "--program"] + [word for s in settings for word in ("--set", s)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if process.returncode != 0:
        return None
    start = 0 if process.stdout[0] == "{" else process.stdout.index("\n{")
    program, report = process.stdout[:start], json.loads(process.stdout[start:])
    figures = {f"{tier} peak": report["memory"][tier]["planned_peak_bytes"] for tier in TIERS}
    for link in LINKS:
        figures[link] = report["traffic"][link]["planned_bytes"]
    workspaces = [int(size) for size in re.findall(r"/workspace workspace (\d+)", program)]
    figures["largest workspace"] = max(workspaces, default=0)
    return figures


def text(value):
    return f"{value / 2**20:.2f} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--recompute", nargs="*", default=["full", "none"])
    arguments = parser.parse_args()
    builds = [str(pathlib.Path(build).resolve()) for build in (arguments.old, arguments.new)]
    worse = plans = smaller = 0
    for run_file in sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("bench/runs/*.yaml")]):
        for precision in ("fp32", "bf16"):
            for ranks in (1, 2):
                for recompute in arguments.recompute:
                    base = [f"train.precision={precision}", f"train.recompute={recompute}", f"parallel.data={ranks}",
                            "parallel.zero_stage=3", "memory.host=1024GiB"]
                    all_of_it = plan(builds[0], run_file, base + ["memory.device=1024GiB"])
                    for part in (1, 2, 4):
                        label = f"{run_file.name} {precision} ranks={ranks} recompute={recompute} 1/{part}"
                        if all_of_it is None:
                            print(f"{label}: refused by the old build")
                            break
                        budget = all_of_it["device peak"] // part
                        old, new = (plan(build, run_file, base + [f"memory.device={budget}"]) for build in builds)
                        plans += 1
                        if old is None or new is None:
                            print(f"{label}: {'refused' if old is None else 'planned'} -> {'refused' if new is None else 'planned'}")
                            worse += old is not None
                            continue
                        changed = {name: (old[name], new[name]) for name in old if old[name] != new[name]}
                        worse += any(b > a for a, b in changed.values())
                        smaller += bool(changed)
                        print(f"{label}: " + (", ".join(f"{name} {text(a)} -> {text(b)}" for name, (a, b) in changed.items()) or "="))
    print(f"{plans} plans: {smaller} differ, {worse} for the worse")
    sys.exit(1 if worse and "auto" not in arguments.recompute else 0)


if __name__ == "__main__":
    main()
