#!/usr/bin/env python3
"""Times every configuration of small spaces and compares the best with what plan.search: auto chooses.

    bench/search.py --out FOLDER --rounds 2 [--settings link drive device ranks pipeline batch] [--steps 6]

A setting is a run file with a slow link, a slow drive, a small device, two ranks, a pipeline of two or few samples. Its space is every
microbatch, recomputation, order, place and layout that its run file leaves open. The profile of the machine comes first
(strata doctor --profile, of one rank), then auto's choice. Then all configurations and the chosen one are timed, in an order that
changes from round to round. A configuration's time is the median of its steps after the second, and of rounds. Writes
FOLDER/SETTING.csv, a row for each, and prints for each setting how far auto is from the best, and how far repeated runs of one
configuration are apart. FOLDER keeps rows: the same command goes on. Times need a machine on which nothing else runs. Needs nothing but
Python's standard library.
"""

import argparse
import csv
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import timed_runs
from memory_design import llama

MODEL = llama(256, 6, 8, 4, 704)
BASE = {
    "model": {"architecture": MODEL[0], "config": MODEL[1]},
    "checkpoint": "none", "data": {"path": "/usr/share/common-licenses/*", "tokenizer": "bytes", "sequence_length": 128},
    "train": {"batch": 16, "precision": "bf16"},
    "optimizer": {"lr": 1e-4},
    "memory": {"device": "24MiB", "host": "2GiB"},
}
ONE_RANK = {
    "train.microbatch": [1, 2, 4, 8],
    "train.recompute": ["none", "full"],
    "plan.order": ["layer_major", "microbatch_major"],
    "memory.placement.optimizer_state": ["auto", "host"],
    "memory.placement.activations": ["auto", "host"],
}
RANKS = {
    "train.microbatch": [1, 2, 4],
    "train.recompute": ["none", "full"],
    "layout": [{"parallel.data": 2, "parallel.zero_stage": stage} for stage in (1, 2, 3)]
    + [{"parallel.tensor": 2, "parallel.sequence": sequence} for sequence in (False, True)]
    + [{"parallel.pipeline": 2, "parallel.schedule": schedule} for schedule in ("gpipe", "1f1b", "zero_bubble")],
}
PIPELINE = {
    "train.microbatch": [1, 2, 4, 8],
    "train.recompute": ["none", "full"],
    "parallel.pipeline": [2],
    "layout": [{"parallel.schedule": schedule} for schedule in ("gpipe", "1f1b", "zero_bubble")]
    + [{"parallel.schedule": schedule, "parallel.chunks": chunks} for schedule in ("interleaved", "breadth_first") for chunks in (2, 4)],
}
# The run file's own keys, ranks and the space.
SETTINGS = {
    "link": ({"device.link.h2d": "500MB/s", "device.link.d2h": "500MB/s"}, 1, ONE_RANK),
    "drive": ({"memory.host": "16MiB", "memory.nvme.path": "{drive}", "memory.nvme.limit.read": "300MB/s", "memory.nvme.limit.write": "300MB/s"},
              1, ONE_RANK | {"memory.placement.optimizer_state": ["auto", "nvme"], "memory.placement.activations": ["auto"],
                             "memory.placement.parameters": ["auto", "nvme"], "memory.placement.gradients": ["auto"]}),
    "device": ({"memory.device": "12MiB"}, 1, ONE_RANK),
    "ranks": ({"memory.device": "unlimited"}, 2, RANKS),
    "pipeline": ({"parallel.pipeline": 2, "memory.device": "unlimited"}, 2, PIPELINE),
    "batch": ({"train.batch": 4}, 1, ONE_RANK | {"train.microbatch": [1, 2, 4]}),
}


def with_key(run, key, value):
    run = json.loads(json.dumps(run))
    section = run
    *path, last = key.split(".")
    for word in path:
        section = section.setdefault(word, {})
    section[last] = value
    return run


def with_keys(run, keys):
    for key, value in keys.items():
        run = with_key(run, key, value)
    return run


def space(knobs):
    """All combinations, as keys of a run file."""
    for values in itertools.product(*knobs.values()):
        keys = {}
        for knob, value in zip(knobs, values):
            keys |= value if isinstance(value, dict) else {knob: value}
        yield keys


class Setting:
    def __init__(self, name, arguments):
        keys, self.ranks, self.knobs = SETTINGS[name]
        self.name, self.arguments = name, arguments
        drive = arguments.out / "drive"
        drive.mkdir(exist_ok=True)
        keys = {key: value.format(drive=drive) if isinstance(value, str) else value for key, value in keys.items()}
        self.run = with_keys(BASE | {"train": BASE["train"] | {"steps": arguments.steps}}, keys)
        self.profile = arguments.out / f"{name}.json"
        self.table = arguments.out / f"{name}.csv"

    def strata(self, run, *words):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "run.yaml"
            file.write_text(json.dumps(run))
            return subprocess.run([self.arguments.strata, words[0], file, *words[1:]], capture_output=True, text=True)

    def measure_machine(self):
        if self.profile.exists():
            return
        run = with_key(self.run if self.ranks == 1 else with_key(self.run, "train.threads", 1), "plan.search", "auto")
        process = self.strata(run, "doctor", "--profile", self.profile, "--ranks", str(self.ranks))
        if process.returncode != 0:
            sys.exit(process.stderr)

    def chosen(self):
        """The keys that the search finds."""
        self.measure_machine()
        run = with_key(self.run, "plan.machine", str(self.profile))
        with tempfile.TemporaryDirectory() as folder:
            found = pathlib.Path(folder) / "found.json"
            process = self.strata(run, "plan", "--search", "--ranks", str(self.ranks), "--json", found)
            if process.returncode != 0:
                sys.exit(process.stderr)
            settings = json.loads(found.read_text())["best"]["settings"]
        return dict(setting.split("=", 1) for setting in settings) | {"plan.machine": str(self.profile)}

    def fits(self, keys):
        return self.strata(with_keys(self.run, keys), "plan", "--ranks", str(self.ranks)).returncode == 0

    def compare(self):
        auto = {key: json.loads(value) if value.isdigit() else {"true": True, "false": False}.get(value, value) for key, value in self.chosen().items()}
        configurations = {"auto": auto} | {json.dumps(keys): keys for keys in space(self.knobs)}
        rows = list(csv.DictReader(self.table.open())) if self.table.exists() else []
        refused = {row["keys"] for row in rows if not row["seconds"]}
        for number in range(self.arguments.rounds):
            names = list(configurations)
            random.Random(number).shuffle(names)
            for name in names:
                if name in refused or any(row["keys"] == name and row["round"] == str(number) for row in rows):
                    continue
                is_possible = number > 0 or self.fits(configurations[name])
                seconds = timed_runs.step_seconds(self.arguments.strata, with_keys(self.run, configurations[name]), self.ranks) if is_possible else ""
                if not is_possible:
                    refused.add(name)
                rows.append({"setting": self.name, "keys": name, "round": str(number), "seconds": str(seconds)})
                with self.table.open("a", newline="") as file:
                    writer = csv.DictWriter(file, rows[-1])
                    if len(rows) == 1:
                        writer.writeheader()
                    writer.writerow(rows[-1])
        times = {}
        for row in rows:
            if row["seconds"]:
                times.setdefault(row["keys"], []).append(float(row["seconds"]))
        medians = {name: statistics.median(seconds) for name, seconds in times.items()}
        best = min((name for name in medians if name != "auto"), key=medians.get)
        spread = statistics.median(max(seconds) / min(seconds) - 1 for seconds in times.values())
        print(f"{self.name}: {len(medians) - 1} configurations, {len(refused)} do not fit; best {medians[best]:.4f} s {best}; worst "
              f"{max(medians.values()):.4f} s; auto {medians['auto']:.4f} s, {100 * (medians['auto'] / medians[best] - 1):+.1f} %, chose {auto}; "
              f"rounds are {100 * spread:.1f} % apart", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    arguments = timed_runs.parse(parser)
    arguments.out = arguments.out.resolve()
    for name in arguments.settings:
        Setting(name, arguments).compare()


if __name__ == "__main__":
    main()
