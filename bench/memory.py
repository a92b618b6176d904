#!/usr/bin/env python3
"""Measures what memory runs take, and the largest model of each budget.

A run's figures are the planned and measured peaks of each tier, what the kernel says that the processes held, and the step's time over
that of the run with all on the device. With --pytorch, the same models in PyTorch and
DeepSpeed, and what DeepSpeed's and accelerate's estimators say. Writes cases.csv, largest.csv, pytorch.csv, estimates.csv, page.html
and, of that, budgets.svg.

    bench/memory.py --out FOLDER [--quick] [--rounds 3] [--models gpt2-3m …] [--pytorch .venv/bin/python] [--parts cases largest pytorch]

Which runs these are is in bench/memory_design.py. Each plans on its own need. The need of a run with all on the device and nothing
recomputed is `resident`, and budgets are parts of that need. If a part is too small, the smallest budget that works is taken. Of one resident run and
those that have its results, each round runs all in turn; times are medians, ratios are medians of those within a round. All of them
must come to one state hash. FOLDER keeps what is there: the same command goes on, and measures no row twice.

Times need a machine on which nothing else runs; memory does not. The page needs matplotlib (Debian: python3-matplotlib), --pytorch what
bench/pytorch_memory.py needs; the rest needs nothing but Python's standard library.
"""

import argparse
import csv
import json
import pathlib
import statistics
import sys

import memory_largest
import pytorch_runs
from memory_design import KNOBS, MODELS, cases, groups
from memory_runs import TIERS, Refused, plan, seconds_of, train

HERE = pathlib.Path(__file__).resolve().parent
WAYS = [("eager", 1, "bf16"), ("checkpointing", 1, "bf16"), ("fsdp", 1, "bf16"), ("fsdp", 2, "bf16"), ("zero2", 1, "bf16"),
        ("zero3", 1, "bf16"), ("zero3", 2, "bf16"), ("eager", 1, "fp32")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder of the results, on a drive with room for optimizer state")
    parser.add_argument("--quick", action="store_true", help="two small models and fewer combinations")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="of each run; the first is not timed")
    parser.add_argument("--batch", type=int, default=4, help="sequences per step, each a microbatch")
    parser.add_argument("--parts", nargs="+", choices=["cases", "largest", "pytorch"], default=["cases", "largest", "pytorch"])
    parser.add_argument("--pytorch", help="Python with torch, transformers, accelerate and deepspeed; without it that part is left out")
    parser.add_argument("--strata", default=str(HERE.parent / "build/strata"))
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error("--steps: 2 or more, the first is not timed")
    return arguments


class Table:
    """A CSV file of rows that grows as they are measured."""

    def __init__(self, file):
        self.file = file
        self.rows = list(csv.DictReader(file.open())) if file.exists() else []

    def has(self, **values):
        return any(all(row[key] == str(value) for key, value in values.items()) for row in self.rows)

    def add(self, row):
        with self.file.open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if not self.rows:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append({key: str(value) for key, value in row.items()})
        print(self.file.stem, *(f"{key}={value}" for key, value in row.items()), flush=True)


def run_of(case, arguments, memory):
    architecture, config = MODELS[case["model"]]
    return {
        "model": {"architecture": architecture, "config": config},
        "checkpoint": "none", "data": {"path": "/usr/share/common-licenses/*", "tokenizer": "bytes", "sequence_length": case["sequence"]},
        "train": {"steps": arguments.steps, "batch": arguments.batch, "microbatch": 1, "precision": case["precision"],
                  "recompute": case["recompute"]},
        "optimizer": {"lr": 1e-4, "master": case["master"], "moments": case["moments"], "schedule": {"warmup": 1}},
        "parallel": {"data": case["ranks"]},
        "memory": memory,
    }


def resident_of(case, arguments):
    """The run with all on the device, and its need."""
    run = run_of(case | {"recompute": "none"}, arguments, {"device": "64GiB"})
    run["memory"]["device"] = plan(arguments.strata, run)["memory"]["device"]["planned_peak_bytes"]
    return run


def budgeted(case, arguments, need):
    """The case's run and whether its part of the need was enough."""
    numerator, denominator = (case["budget"] + "/1").split("/")[:2]
    memory = {"device": need * int(numerator) // int(denominator), "host": "unlimited"}
    if case["optimizer_state"] == "nvme":
        memory |= {"nvme": {"path": str(arguments.out)}, "placement": {"optimizer_state": "nvme"}}
    run = run_of(case, arguments, memory)
    try:
        plan(arguments.strata, run)
        return run, True
    except Refused as refused:
        if refused.smallest_device_bytes is None:
            sys.exit(str(refused))
        run["memory"]["device"] = refused.smallest_device_bytes
        return run, False


def measure_group(table, shared, members, arguments):
    """One resident run, and all cases that have its results."""
    if all(table.has(**case) for case in members):
        return
    resident = resident_of(members[0], arguments)
    need = resident["memory"]["device"]
    whole = shared | {"budget": "resident", "recompute": "none", "optimizer_state": "auto"}
    runs = [(whole, resident, True)] + [(case, *budgeted(case, arguments, need)) for case in members]
    rounds = [[train(arguments.strata, run, shared["ranks"]) for _, run, _ in runs] for _ in range(arguments.rounds)]
    hashes = {report["state_hash"] for reports in rounds for report in reports}
    if len(hashes) != 1:
        sys.exit(f"{shared}: the state differs: {hashes}")
    for index, (case, run, fits) in enumerate(runs):
        of_case = [reports[index] for reports in rounds]
        ratios = [seconds_of(reports[index]) / seconds_of(reports[0]) for reports in rounds]
        if not table.has(**case):
            table.add(row_of(case, run, fits, of_case, statistics.median(ratios)))


def row_of(case, run, fits, reports, ratio):
    report, ranks = reports[0], case["ranks"]
    row = {knob: case[knob] for knob in KNOBS} | {"device_budget_bytes": run["memory"]["device"], "budget_fits": fits}
    for tier in TIERS:
        row[f"planned_{tier}_bytes"] = sum(rank["memory"][tier]["planned_peak_bytes"] for rank in report["ranks"])
        row[f"measured_{tier}_bytes"] = sum(rank["memory"][tier]["measured_peak_bytes"] for rank in report["ranks"])
    scratch = report["scratch"]
    row |= {"planned_scratch_bytes": ranks * scratch["planned_bytes"], "measured_scratch_bytes": ranks * scratch["measured_bytes"],
            "differences_from_plan": sum(len(rank["differences_from_plan"]) for rank in report["ranks"])}
    row["rss_training_bytes"] = max(one["rss_bytes"]["training"] for one in reports)
    row["rss_whole_bytes"] = max(one["rss_bytes"]["whole"] for one in reports)
    row["step_seconds"] = round(statistics.median(map(seconds_of, reports)), 4)
    row["step_over_resident"] = round(ratio, 3)
    return row


def pytorch(arguments, words, ranks=0):
    """The JSON line of a program of bench/, as this many ranks if there are any."""
    return json.loads(pytorch_runs.run(arguments.pytorch, words, ranks).splitlines()[-1])


def measure_pytorch(arguments, models):
    measured, estimates = Table(arguments.out / "pytorch.csv"), Table(arguments.out / "estimates.csv")
    for model in models:
        architecture, config = MODELS[model]
        shape = ["--architecture", architecture, "--config", json.dumps(config)]
        for way, ranks, precision in WAYS:
            if measured.has(model=model, way=way, ranks=ranks, precision=precision):
                continue
            figures = pytorch(arguments, [str(HERE / "pytorch_memory.py"), *shape, "--way", way, "--precision", precision,
                                          "--batch", str(arguments.batch), "--steps", str(arguments.steps - 1)], ranks)
            measured.add({"model": model, "way": way, "ranks": ranks, "precision": precision} | figures)
        measure_estimates(arguments, model, shape, measured, estimates)


def measure_estimates(arguments, model, shape, measured, estimates):
    """Estimates beside what was measured of the same thing, all ranks together."""
    if estimates.has(model=model):
        return
    found = pytorch(arguments, [str(HERE / "pytorch_estimates.py"), *shape])
    truth = {(row["way"], int(row["ranks"]), row["precision"]): int(row["allocated_peak_bytes"]) for row in measured.rows if row["model"] == model}
    pairs = [("DeepSpeed", (stage, ranks, "bf16"), ranks * found["deepspeed"][f"{stage} x{ranks}"]["device"])
             for stage, ranks in (("zero2", 1), ("zero3", 1), ("zero3", 2))]
    pairs += [("accelerate", ("eager", 1, precision), found["accelerate"][precision]) for precision in ("bf16", "fp32")]
    for tool, (way, ranks, precision), estimate in pairs:
        took = truth[way, ranks, precision]
        estimates.add({"model": model, "tool": tool, "way": way, "ranks": ranks, "precision": precision, "estimate_bytes": estimate,
                       "measured_bytes": took, "ratio": round(estimate / took, 3)})


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [case for case in cases(arguments.quick) if case["model"] in arguments.models]
    if "cases" in arguments.parts:
        table = Table(arguments.out / "cases.csv")
        for shared, members in groups(chosen):
            measure_group(table, shared, members, arguments)
    if "largest" in arguments.parts:
        memory_largest.measure(Table(arguments.out / "largest.csv"), arguments.strata, arguments.quick)
    if "pytorch" in arguments.parts and arguments.pytorch:
        measure_pytorch(arguments, list(dict.fromkeys(case["model"] for case in chosen)))
    import memory_page  # imports matplotlib
    memory_page.write(arguments.out)


if __name__ == "__main__":
    main()
