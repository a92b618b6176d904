#!/usr/bin/env python3
"""Plans every run file of examples/ and bench/runs/ with two builds of strata, and prints what each needs and moves.

Each is planned at three device budgets, in fp32 and bf16, for one rank and for two in ZeRO stage 3. The step's time is printed, too,
by the planner's nominal rates.

    bench/compare_run_files.py OLD NEW [--recompute full none auto] [--threads 2] [--equal]
    bench/compare_run_files.py OLD NEW --train STEPS [--largest MILLIONS]     also runs them, if of CPUs, with short sequences, and compares state hashes and losses

Budgets are parts of what the old build takes if it may take all that the run file's host leaves: all, a half, a quarter. A line with
`=` is equal in every figure and in the program; otherwise figures are old -> new. The exit status is 1 in these cases:

- activations are recomputed or saved as told, and a new plan is refused, has a larger peak or moves more;
- results differ;
- a plan differs at all, with --equal.

Needs nothing but Python's standard library."""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import mpirun
import two_builds

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIERS, LINKS = ("device", "host", "nvme"), ("h2d", "d2h", "nvme_read", "nvme_write", "all_gather", "reduce_scatter", "all_reduce")


def models_of(report):
    """Reports of all models; a run of one has no list."""
    return report.get("models", [report])


def step_seconds(report, threads, cuda, ranks):
    """As estimated_seconds() and nvme_seconds() in engine/plan/cost/rates.h, at planning_rates(); cores also make updates."""
    moved = {link: report["traffic"][link]["planned_bytes"] for link in LINKS}
    narrow = models_of(report)[0]["precision"] != "fp32"
    flops, copies = ((600e12 if narrow else 50e12), 50e9) if cuda else ((400e9 if narrow else 200e9) * threads, 8e9 * threads)
    h2d = moved["h2d"] + moved["all_gather"] + moved["reduce_scatter"] + moved["all_reduce"]
    computing = report["flops"]["executed"] / flops
    if not cuda:
        computing += (h2d + moved["d2h"]) / copies + 28 * report["parameters"] / ranks / (2 * copies)
    return max(computing, h2d / copies, moved["d2h"] / copies, moved["nvme_read"] / 6e9 + moved["nvme_write"] / 4e9)


def plan(strata, run_file, ranks, settings, threads):
    """Figures by name and the program, or None if the run is refused."""
    process = two_builds.run_plan(strata, run_file, settings, ROOT)
    if process.returncode != 0:
        return None
    program, report = two_builds.split_plan(process.stdout)
    figures = {f"{tier} peak": report["memory"][tier]["planned_peak_bytes"] for tier in TIERS}
    for link in LINKS:
        figures[link] = report["traffic"][link]["planned_bytes"]
    workspaces = [int(size) for size in re.findall(r"/workspace workspace (\d+)", program)]
    figures["largest workspace"] = max(workspaces, default=0)
    figures["step"] = step_seconds(report, threads, is_cuda(run_file), ranks)
    figures["parameters"] = report["parameters"]
    figures["program"] = program
    return figures


def is_cuda(run_file):
    return "kind: cuda" in run_file.read_text()


def with_whole_microbatches(run_file, ranks):
    """A larger batch, if the run file's has no microbatch for each rank."""
    sizes = {key: int(size) for key, size in re.findall(r"\b(batch|microbatch): (\d+)", run_file.read_text())}
    least = sizes.get("microbatch", 1) * ranks
    return [f"train.batch={least}"] if sizes.get("batch", least) < least else []


def train(strata, run_file, ranks, settings):
    """The state's hash and the losses of each model, or what it says instead."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings + [f"checkpoint.path={folder}/out", f"report.metrics={folder}/metrics.jsonl"]
        if "nvme:" in run_file.read_text():
            os.mkdir(f"{folder}/drive")
            settings.append(f"memory.nvme.path={folder}/drive")
        command = [strata, "train", str(run_file), "--fresh", "--json", f"{folder}/report.json"]
        before, environment = mpirun.launch(ranks) if ranks > 1 else ([], os.environ)
        command = before + command + two_builds.words_of(settings)
        process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
        if process.returncode != 0:
            return (process.stderr.strip().splitlines() or ["no output"])[-1]
        report = json.loads(pathlib.Path(f"{folder}/report.json").read_text())
        return [(model["state_hash"], model["loss"]) for model in models_of(report)]


def text(name, value):
    return f"{value:.4f} s" if name == "step" else f"{value / 2**20:.2f} MiB"


class Comparison:
    def __init__(self, builds, arguments):
        self.builds, self.arguments = builds, arguments
        self.plans = self.differ = self.worse = self.slower = self.trained = self.other_bits = 0
        self.changes = collections.defaultdict(collections.Counter)
        self.in_old_peaks = collections.Counter()

    def compare(self, label, run_file, ranks, settings):
        old, new = (plan(build, run_file, ranks, settings, self.arguments.threads) for build in self.builds)
        self.plans += 1
        if old is None or new is None:
            print(f"{label}: {'refused' if old is None else 'planned'} -> {'refused' if new is None else 'planned'}", flush=True)
            self.worse += old is not None
            return
        changed = {name: (old[name], new[name]) for name in old if old[name] != new[name]}
        other_program = changed.pop("program", None) is not None
        larger = [name for name, (a, b) in changed.items() if b > a]
        self.worse += bool(larger)
        self.slower += new["step"] > old["step"]
        self.differ += bool(changed) or other_program
        for name, (a, b) in changed.items():
            self.changes[name]["larger" if b > a else "smaller"] += 1
        words = ", ".join(f"{name} {text(name, a)} -> {text(name, b)}" for name, (a, b) in changed.items())
        words = words or ("another program with the same figures" if other_program else "=")
        if larger:
            within = self.within_old_peaks(run_file, ranks, settings, old)
            self.in_old_peaks[within.split(":")[0]] += 1
            words += f"; given the old plan's peaks as budgets, {within}"
        if self.arguments.train and not is_cuda(run_file) and old["parameters"] <= self.arguments.largest * 1e6:
            words += "; " + self.compare_results(run_file, ranks, settings)
        print(f"{label}: {words}", flush=True)

    def within_old_peaks(self, run_file, ranks, settings, old):
        """What both builds make of budgets that are the old plan's peaks."""
        budgets = [f"memory.device={old['device peak']}", f"memory.host={max(old['host peak'], 4096)}"]
        old, new = (plan(build, run_file, ranks, settings + budgets, self.arguments.threads) for build in self.builds)
        if old is None or new is None:
            return f"{'refused' if old is None else 'planned'} -> {'refused' if new is None else 'planned'}"
        longer = [f"{name} {text(name, old[name])} -> {text(name, new[name])}" for name in old if name != "program" and new[name] > old[name]]
        return f"planned by both, a step is longer: {', '.join(longer)}" if new["step"] > old["step"] else "planned by both, no step is longer"

    def compare_results(self, run_file, ranks, settings):
        settings = settings + [f"train.steps={self.arguments.train}", "optimizer.schedule.warmup=1", "train.validate_every=0",
                               f"train.threads={max(1, self.arguments.threads // ranks)}"]
        old, new = (train(build, run_file, ranks, settings) for build in self.builds)
        self.trained += 1
        self.other_bits += old != new or isinstance(new, str)
        if isinstance(old, str) or isinstance(new, str) or old != new:
            return f"trained otherwise: {old} -> {new}"
        return "; ".join(f"state {state}, losses {', '.join(f'{loss:.4f}' for loss in losses)}" for state, losses in new) + " in both"

    def print_sums(self):
        print(f"{self.plans} plans: {self.differ} differ, {self.worse} for the worse, {self.slower} with a longer step")
        for name, counts in self.changes.items():
            print(f"  {name}: {counts['smaller']} smaller, {counts['larger']} larger")
        for what, count in self.in_old_peaks.items():
            print(f"  with something larger, given the old plan's peaks as budgets: {what}: {count}")
        if self.arguments.train:
            print(f"{self.trained} trained by both: {self.other_bits} with other bits")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    two_builds.add_builds(parser)
    parser.add_argument("--recompute", nargs="*", default=["full", "none"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--train", type=int, default=0, metavar="STEPS")
    parser.add_argument("--largest", type=float, default=400, metavar="MILLIONS")
    parser.add_argument("--only", default="", help="run files with this in their names")
    parser.add_argument("--equal", action="store_true", help="another plan is a failure, whether it is better or worse")
    arguments = parser.parse_args()
    comparison = Comparison([str(pathlib.Path(build).resolve()) for build in (arguments.old, arguments.new)], arguments)
    for run_file in sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("bench/runs/*.yaml")]):
        if arguments.only not in run_file.name:
            continue
        for precision in ("fp32", "bf16"):
            for ranks in (1, 2):
                for recompute in arguments.recompute:
                    base = [f"train.precision={precision}", f"train.recompute={recompute}", f"parallel.data={ranks}",
                            "parallel.zero_stage=3", "memory.host=1024GiB"]
                    two_microbatches = ["train.microbatch=1", f"train.batch={2 * ranks}", "data.sequence_length=16"]
                    base += two_microbatches if arguments.train else with_whole_microbatches(run_file, ranks)
                    label = f"{run_file.name} {precision} ranks={ranks} recompute={recompute}"
                    all_of_it = plan(comparison.builds[0], run_file, ranks, base + ["memory.device=1024GiB"], arguments.threads)
                    if all_of_it is None:
                        print(f"{label}: refused by the old build")
                        continue
                    for part in (1, 2, 4):
                        budget = all_of_it["device peak"] // part
                        comparison.compare(f"{label} 1/{part}", run_file, ranks, base + [f"memory.device={budget}"])
    comparison.print_sums()
    failed = comparison.other_bits or (arguments.equal and comparison.differ)
    sys.exit(1 if failed or (comparison.worse and "auto" not in arguments.recompute) else 0)


if __name__ == "__main__":
    main()
