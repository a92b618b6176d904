#!/usr/bin/env python3
"""The largest model that one GPU trains at 80 % of what its computing alone allows, over tokens per step.

    bench/compute_bound.py [--machine examples/machines/h200.yaml] [--share 0.8] [--csv FILE]

Models are Llamas with a vocabulary of 128256. They have a head of 128 columns for each layer, 8 heads of keys and values, and 3.5 times
the width between. The largest width comes first, then as many layers more as fit. Sequences have 4096 tokens. For each model the
search chooses microbatch, recomputation, order and places (plan.search: auto). A step's share is the seconds that the model's FLOPs take at the machine's rate, with
nothing made again, over those planned. Nothing is measured: every machine gives the same table. Needs nothing but Python's standard library.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

from memory_design import llama
from memory_largest import largest

SEQUENCE = 4096
BATCHES = [1, 4, 16, 64, 256]
WAYS = {"AdamW": {}, "AdamW, split master, bf16 moments": {"master": "split", "moments": "bf16"}}
LEAST_HEADS = 8


class Planner:
    def __init__(self, arguments):
        self.arguments = arguments
        self.known = {}

    def plan(self, way, batch, heads, layers):
        """The planned step of a model, or nothing if it does not fit."""
        key = (way, batch, heads, layers)
        if key not in self.known:
            self.known[key] = self.answer_of(*key)
        return self.known[key]

    def answer_of(self, way, batch, heads, layers):
        architecture, config = llama(128 * heads, layers, heads, 8, 448 * heads)
        run = {
            "model": {"architecture": architecture, "config": config | {"vocab_size": 128256}},
            "data": {"path": ["tokens.bin"], "tokenizer": "none", "sequence_length": SEQUENCE},
            "train": {"steps": 10, "batch": batch, "precision": "bf16"}, "optimizer": WAYS[way],
            "device": {"kind": "cuda"}, "memory": {"device": "unlimited", "host": "unlimited"},
            "plan": {"machine": str(pathlib.Path(self.arguments.machine).resolve()), "search": "auto"}}
        with tempfile.TemporaryDirectory() as folder:
            file, found = pathlib.Path(folder) / "run.yaml", pathlib.Path(folder) / "plan.json"
            file.write_text(json.dumps(run))
            process = subprocess.run([self.arguments.strata, "plan", file, "--json", found], capture_output=True, text=True)
            if process.returncode == 0:
                answer = json.loads(found.read_text())
                print(f"{way}, {batch} sequences, {heads} heads, {layers} layers: {answer['parameters'] / 1e9:.2f} B, planned "
                      f"{answer['certificate']['planned_seconds']:.3f} s, {self.share(answer):.1%}", file=sys.stderr, flush=True)
                return answer
            if process.returncode != 2 or "memory" not in process.stderr:
                sys.exit(process.stderr)
            return None

    def is_good(self, *key):
        answer = self.plan(*key)
        return answer is not None and self.share(answer) >= self.arguments.share

    @staticmethod
    def share(answer):
        computing = answer["needs"]["compute"] * answer["flops"]["model"] / answer["flops"]["executed"]
        return computing / answer["certificate"]["planned_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/strata"))
    parser.add_argument("--machine", default=str(pathlib.Path(__file__).resolve().parent.parent / "examples/machines/h200.yaml"))
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--csv", help="a row for each way and number of tokens")
    arguments = parser.parse_args()
    planner = Planner(arguments)
    rows = []
    for way in WAYS:
        for batch in BATCHES:
            if not planner.is_good(way, batch, LEAST_HEADS, LEAST_HEADS):
                continue
            eights = largest(lambda n: planner.is_good(way, batch, 8 * n, 8 * n), LEAST_HEADS // 8)
            heads = 8 * eights
            layers = largest(lambda layers: planner.is_good(way, batch, heads, layers), heads)
            answer = planner.plan(way, batch, heads, layers)
            rows.append({"way": way, "tokens": batch * SEQUENCE, "parameters": answer["parameters"], "hidden": 128 * heads, "layers": layers,
                         "step_seconds": round(answer["certificate"]["planned_seconds"], 4), "share": round(planner.share(answer), 3),
                         "units_with_device_state": answer["units_with_device_state"]})
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    print("| optimizer | tokens per step | largest model | width x layers | step | of its compute bound |\n|---|--:|--:|---|--:|--:|")
    for row in rows:
        print(f"| {row['way']} | {row['tokens']} | {row['parameters'] / 1e9:.2f} B | {row['hidden']} x {row['layers']} | "
              f"{row['step_seconds']:.3f} s | {row['share']:.0%} |")


if __name__ == "__main__":
    main()
