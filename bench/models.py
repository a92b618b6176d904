#!/usr/bin/env python3
"""Trains several models at once that have no room on the device, and measures the time until all are done.

That time stands beside the time of the same models one after the other, each with the whole budgets, and beside the sum of their steps
with all on the device. It is the job of the paper on Hydra
(Nagrecha and Kumar 2021) made smaller: one GPT-2, learning rates x batches, SGD, fp32.

    bench/models.py [--models 1 2 4 8] [--rounds 3] [--steps 3] [--drive /scratch] [--set plan.order=layer_major …]
    bench/models.py --pytorch /tmp/venv/bin/python [--models 4 8]     # against PyTorch, nothing slowed

The device computes slowly (device.flops), so that its cores are free and a step with all on the device takes what its FLOPs take. The device
has --fraction of one model's need, and each link is so slow that all models' bytes take --part of all models' computing. With --drive
parameters live in that folder, which is as slow. Runs take turns; the tables have medians of rounds, and the hash of each model's state
must be that of its run alone. Needs nothing but Python's standard library.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = [3e-4, 1e-4, 5e-5, 6e-5, 1e-5, 2e-5, 3e-5, 4e-5]  # the first six are the paper's
LINKS = ("h2d", "d2h", "nvme_read", "nvme_write")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", type=int, default=[1, 2, 4, 8], help="how many at once: 1, or a multiple of the batches")
    parser.add_argument("--batches", nargs="+", type=int, default=[16, 8])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--microbatch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--flops", type=float, default=60e9, help="FLOP/s of the slow device")
    parser.add_argument("--fraction", type=float, default=0.24, help="of one model's need that the device has")
    parser.add_argument("--part", type=float, default=0.85, help="time of each link over that of computing")
    parser.add_argument("--drive", help="folder in which parameters live")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for every run")
    parser.add_argument("--plan-only", action="store_true", help="print what is planned and train nothing")
    parser.add_argument("--pytorch", help="Python with torch and transformers: compare with PyTorch instead")
    parser.add_argument("--strata", default=str(ROOT / "build/strata"))
    arguments = parser.parse_args()
    batches = len(arguments.batches)
    if any(count != 1 and (count % batches != 0 or not 0 < count <= batches * len(RATES)) for count in arguments.models):
        parser.error(f"--models: 1, or a multiple of {batches} up to {batches * len(RATES)}")
    return arguments


class Strata:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)

    def run(self, command, run):
        """The report of a command that must succeed."""
        file, report = self.folder / "run.yaml", self.folder / "report.json"
        file.write_text(json.dumps(run))
        words = [self.arguments.strata, command, str(file), "--json", str(report)]
        process = subprocess.run(words + [word for each in self.arguments.set for word in ("--set", each)], capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(f"{process.stderr}\n{' '.join(words)} ended with status {process.returncode}")
        return json.loads(report.read_text())


def resident(arguments):
    """A run with all on the device, which has the first batch."""
    return {
        "model": {"architecture": "gpt2",
                  "config": {"vocab_size": 256, "n_positions": arguments.sequence, "n_embd": arguments.hidden,
                             "n_layer": arguments.layers, "n_head": arguments.heads}},
        "checkpoint": "none", "data": {"path": ["/usr/share/common-licenses/*"], "tokenizer": "bytes", "sequence_length": arguments.sequence},
        "train": {"steps": arguments.steps, "batch": arguments.batches[0], "microbatch": arguments.microbatch, "precision": "fp32",
                  "recompute": arguments.recompute},
        "optimizer": {"type": "sgd", "lr": RATES[0], "weight_decay": 0, "clip_norm": 0},
    }


def grid(arguments, count):
    """Learning rates and batches of `count` models."""
    batches = arguments.batches[:count]
    return RATES[:count // len(batches)], batches


def together(arguments, run, count):
    rates, batches = grid(arguments, count)
    return run | {"sweep": {"optimizer.lr": rates, "train.batch": batches}}


def alone(run, rate, batch):
    return run | {"train": run["train"] | {"batch": batch}, "optimizer": run["optimizer"] | {"lr": rate}}


def seconds_of(report):
    """From the first step's begin to the last one's end; steps overlap."""
    return sum(report["step_seconds"]) + sum(report["drain_seconds"])


def machine_file(strata, rates):
    profile = {"bf16_instructions": False, "cores_copy": False, "memory_bytes": 16 * 2**30, "memory_bytes_per_second": 1e11,
               "flops_per_second": strata.arguments.flops}
    profile |= {f"{link}_bytes_per_second": rates[link] for link in LINKS}
    file = strata.folder / "machine.json"
    file.write_text(json.dumps(profile))
    return str(file)


def slowed(strata, free):
    """The run on the slow device, with less memory than it needs, and for a report what it has. Rates and plan depend on one another, so
    the rates are those of the plan by them, of the largest number of models."""
    arguments = strata.arguments
    need = strata.run("plan", free)["memory"]["device"]["planned_peak_bytes"]
    slow = free | {"memory": {"device": int(arguments.fraction * need), "host": "unlimited"}}
    if arguments.drive:
        slow["memory"] |= {"nvme": {"path": arguments.drive}, "placement": {"parameters": "nvme"}}
    rates = dict.fromkeys(LINKS, 1e9)
    for _ in range(4):
        slow["plan"] = {"machine": machine_file(strata, rates)}
        plan = strata.run("plan", together(arguments, slow, max(arguments.models)))
        computing = plan["flops"]["executed"] / arguments.flops
        moved = {link: plan["traffic"][link]["planned_bytes"] for link in LINKS}
        moved["nvme_read"] = moved["nvme_write"] = moved["nvme_read"] + moved["nvme_write"]  # they take turns
        rates = {link: max(1e6, round(moved[link] / (arguments.part * computing))) for link in LINKS}
    slow["plan"] = {"machine": machine_file(strata, rates)}
    slow["device"] = {"flops": arguments.flops, "link": {"h2d": f"{rates['h2d']}/s", "d2h": f"{rates['d2h']}/s"}}
    if arguments.drive:
        slow["memory"]["nvme"]["limit"] = {"read": f"{rates['nvme_read']}/s", "write": f"{rates['nvme_write']}/s"}
    return slow, need, rates


def link_shares(traffic, rates, computing, bytes_key):
    """Seconds of bytes over seconds of computing."""
    shares = {link: traffic[link][bytes_key] / rates[link] / computing for link in LINKS}
    return {"h2d": shares["h2d"], "d2h": shares["d2h"], "drive": shares["nvme_read"] + shares["nvme_write"]}


def text_of_shares(shares):
    return ", ".join(f"{link} {share:.2f}" for link, share in shares.items() if share > 0)


def print_plans(strata, slow, rates):
    flops = strata.arguments.flops
    print("| models | computing (s) | planned (s) | / computing | order | links / computing |\n|--:|--:|--:|--:|---|---|")
    for count in strata.arguments.models:
        plan = strata.run("plan", together(strata.arguments, slow, count))
        computing = plan["flops"]["executed"] / flops
        order = next(order["name"] for order in plan["turn_sequences"] if order["chosen"])
        print(f"| {count} | {computing:.2f} | {plan['round_seconds']:.2f} | {plan['round_seconds'] / computing:.2f} | {order} "
              f"| {text_of_shares(link_shares(plan['traffic'], rates, computing, 'planned_bytes'))} |", flush=True)


def check(report, hashes, models):
    """Each model's state is that of its run alone, and peaks and bytes are those planned."""
    for model, one in zip(report["models"], models, strict=True):
        if model["state_hash"] != hashes[one]:
            sys.exit(f"{model['name']}: state {model['state_hash']}, alone {hashes[one]}")
    for kind, planned, measured in (("memory", "planned_peak_bytes", "measured_peak_bytes"), ("traffic", "planned_bytes", "measured_bytes")):
        for name, figures in report[kind].items():
            if figures[planned] != figures[measured]:
                sys.exit(f"{name}: {figures[planned]} bytes planned, {figures[measured]} measured")


def measure(strata, slow, rates):
    arguments = strata.arguments
    free = {key: value for key, value in slow.items() if key not in ("memory", "plan")} | {"device": {"flops": arguments.flops}}
    models = {count: list(itertools.product(*grid(arguments, count))) for count in arguments.models}
    every = models[max(arguments.models)]
    found = {count: [] for count in arguments.models}
    for _ in range(arguments.rounds):
        reports = {count: strata.run("train", together(arguments, slow, count)) for count in arguments.models}
        solo = {one: strata.run("train", alone(slow, *one)) for one in every}
        # Learning rates change no time.
        in_device = {batch: strata.run("train", alone(free, RATES[0], batch)) for batch in arguments.batches}
        for batch, report in in_device.items():
            if (RATES[0], batch) in solo and report["state_hash"] != solo[RATES[0], batch]["state_hash"]:
                sys.exit(f"batch {batch}: state {report['state_hash']} with all on the device, {solo[RATES[0], batch]['state_hash']} without")
        hashes = {one: report["state_hash"] for one, report in solo.items()}
        for count, report in reports.items():
            check(report, hashes, models[count])
            computing = sum(in_device[batch]["flops"]["executed"] for _, batch in models[count]) * arguments.steps / arguments.flops
            after = sum(seconds_of(solo[one]) for one in models[count])
            steps = sum(seconds_of(in_device[batch]) for _, batch in models[count])
            found[count].append({"report": report, "computing": computing, "together": report["seconds"], "after": after, "steps": steps,
                                 "idle": report["idle_share"],
                                 "shares": link_shares(report["traffic"], rates, computing, "measured_bytes")})
    print("| models | computing (s) | steps, all on the device (s) | together (s) | one after the other (s) | after / together | together / steps "
          "| steps / after | compute idle | links / computing | device, host, drive (MiB) |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|")
    for count, rounds in found.items():
        median = lambda figure: statistics.median(figure(one) for one in rounds)
        memory = rounds[0]["report"]["memory"]
        peaks = ", ".join(f"{memory[tier]['measured_peak_bytes'] / 2**20:.1f}" for tier in ("device", "host", "nvme"))
        print(f"| {count} | {rounds[0]['computing']:.1f} | {median(lambda one: one['steps']):.1f} | {median(lambda one: one['together']):.1f} "
              f"| {median(lambda one: one['after']):.1f} | **{median(lambda one: one['after'] / one['together']):.2f}** "
              f"| **{median(lambda one: one['together'] / one['steps']):.2f}** | {median(lambda one: one['steps'] / one['after']):.2f} "
              f"| **{100 * median(lambda one: one['idle']):.1f} %** | {text_of_shares(rounds[0]['shares'])} | {peaks} |")
    print("\nEach model's state hash is that of its run alone; peaks and bytes are as planned.")


def compare_with_pytorch(strata):
    arguments = strata.arguments
    run = resident(arguments) | {"memory": {"device": "unlimited", "host": "unlimited"}}

    def pytorch(count, *way):
        rates, batches = grid(arguments, count)
        words = [arguments.pytorch, str(ROOT / "bench/pytorch_models.py"), *way, "--rates", *map(str, rates), "--batches", *map(str, batches)]
        for key in ("layers", "hidden", "heads", "sequence", "microbatch", "steps"):
            words += [f"--{key}", str(getattr(arguments, key))]
        process = subprocess.run(words, capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(process.stderr)
        return json.loads(process.stdout)["seconds"]

    ways = {
        "Strata, together": lambda count: strata.run("train", together(arguments, run, count))["seconds"],
        "Strata, one after the other": lambda count: sum(
            seconds_of(strata.run("train", alone(run, *one))) for one in itertools.product(*grid(arguments, count))),
        "PyTorch, one after the other": lambda count: pytorch(count),
        "PyTorch, a process each": lambda count: pytorch(count, "--processes"),
    }
    print(f"| models | {' (s) | '.join(ways)} (s) | best of PyTorch / Strata, together |\n|--:|{'--:|' * (len(ways) + 1)}")
    for count in arguments.models:
        rounds = [[way(count) for way in ways.values()] for _ in range(arguments.rounds)]
        medians = [statistics.median(column) for column in zip(*rounds)]
        ratio = statistics.median(min(one[2:]) / one[0] for one in rounds)
        print(f"| {count} | {' | '.join(f'{seconds:.1f}' for seconds in medians)} | **{ratio:.2f}** |", flush=True)


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        strata = Strata(arguments, folder)
        if arguments.pytorch:
            return compare_with_pytorch(strata)
        slow, need, rates = slowed(strata, resident(arguments))
        print(f"a model needs {need / 2**20:.1f} MiB of the device, which has {slow['memory']['device'] / 2**20:.1f}; {arguments.flops / 1e9:.0f} "
              f"GFLOP/s, h2d {rates['h2d'] / 1e6:.0f} MB/s, d2h {rates['d2h'] / 1e6:.0f} MB/s"
              + (f", drive {rates['nvme_read'] / 1e6:.0f} MB/s" if arguments.drive else "") + "\n")
        if arguments.plan_only:
            print_plans(strata, slow, rates)
        else:
            measure(strata, slow, rates)


if __name__ == "__main__":
    main()
