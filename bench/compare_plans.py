#!/usr/bin/env python3
"""Plans random run files with two builds of strata and compares what they answer: the whole program with its places, and the report.

    bench/compare_plans.py OLD NEW [--runs 300] [--seed 1] [--largest 64] [--equal]

A run is equal if both print the same plan, byte for byte, or refuse with the same sentence. For others it prints the run file and
peaks and bytes of both. The exit status is 1 if a new plan is refused or has a larger peak or moves more; with --equal, if anything
differs. --largest is the most layers and microbatches. Needs nothing but Python's standard library.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import sys
import tempfile

import two_builds

# hidden size, heads, heads of keys and values, intermediate size, vocabulary
SIZES = [(64, 4, 4, 172, 300), (256, 4, 2, 1000, 50257), (2048, 16, 8, 5632, 32000), (8192, 64, 8, 28672, 128256)]


def random_run(pick, drive, largest):
    """The settings of one run file."""
    hidden, heads, kv_heads, intermediate, vocabulary = pick.choice(SIZES)
    layers, microbatches = (min(pick.choice([1, 2, 3, 5, 8, 16, 40, 80]), largest) for _ in range(2))
    config = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "intermediate_size": intermediate, "vocab_size": vocabulary, "tie_word_embeddings": pick.random() < 0.4}
    ranks = pick.choice([1, 1, 1, 2, 4])
    precision = pick.choice(["bf16", "bf16", "fp32", "fp16"])
    layout = {"data": ranks, "zero_stage": pick.choice([0, 1, 2, 3, 3]), "sparse_gradients": pick.random() < 0.5}
    if precision == "bf16":
        layout["reduce_dtype"] = pick.choice(["fp32", "bf16"])
    if layout["zero_stage"] > 0 and ranks == 4:
        layout["replicate"] = pick.choice([1, 2])
    sequence = pick.choice([64, 512, 2048])
    run = {
        "model": {"architecture": "llama", "config": config},
        "data": {"path": ["x.bin"], "tokenizer": "none", "sequence_length": sequence},
        "train": {"steps": 10, "batch": microbatches * ranks, "microbatch": 1, "precision": precision,
                  "recompute": pick.choice(["auto", "auto", "none", "full"]),
                  "validate_every": pick.choice([0, 5]), "validation_batches": pick.choice([1, 7, 30])},
        "optimizer": {"clip_norm": pick.choice([0.0, 1.0]), "moments": pick.choice(["fp32", "bf16"])},
        "parallel": layout,
    }
    if precision == "bf16":
        run["optimizer"]["master"] = pick.choice(["fp32", "split"])
    if pick.random() < 0.3:
        run["plan"] = {"order": pick.choice(["layer_major", "microbatch_major"])}
    if pick.random() < 0.5:
        run["checkpoint"] = {"path": "out", "every": 2}
    run["memory"] = random_memory(pick, drive, layers, hidden, intermediate, vocabulary, sequence, microbatches)
    return run


def random_memory(pick, drive, layers, hidden, intermediate, vocabulary, sequence, microbatches):
    """Budgets from about what a unit needs to all that the run wants, and sometimes kinds that are told where to live."""
    unit = 8 * (4 * hidden * hidden + 3 * hidden * intermediate) + 64 * hidden * sequence + 8 * intermediate * sequence
    head = 8 * vocabulary * hidden
    state = 14 * (layers * (4 * hidden * hidden + 3 * hidden * intermediate) + 2 * vocabulary * hidden)
    activations = layers * microbatches * sequence * (20 * hidden + 6 * intermediate)

    def between(low, high):
        return int(low * (max(high, low + 1) / low) ** pick.random())

    memory = {"device": between(unit + head, 2 * (unit + head) + state + activations)}
    has_host, has_drives = pick.random() < 0.85, pick.random() < 0.5
    if has_host:
        memory["host"] = between(2 * (unit + head), 2 * (unit + head) + state + 2 * activations)
        if has_drives:
            memory["nvme"] = {"path": [drive], "size": between(unit + state, 4 * (state + activations))}
    tiers = ["device"] + has_host * ["host"] + (has_host and has_drives) * ["nvme"]
    places = {kind: pick.choice(tiers) for kind in ("parameters", "optimizer_state", "gradients", "activations")
              if pick.random() < 0.2}
    if places.get("optimizer_state") == "device" and places.get("parameters") in ("host", "nvme"):
        del places["parameters"]
    if places:
        memory["placement"] = places
    return memory


def plan(strata, run_file):
    """What it prints, or its refusal, which names the program; and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = two_builds.run_plan(strata, run_file)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode == 0:
        return process.stdout, None, seconds
    if process.returncode != 2:
        sys.exit(f"{strata} plan {run_file} ends with {process.returncode}: {process.stderr}")
    return None, process.stderr, seconds


def amounts(value, path=""):
    """Peaks and moved bytes by their names."""
    if isinstance(value, dict):
        return {name: amount for key, part in value.items() for name, amount in amounts(part, f"{path}/{key}").items()}
    is_amount = isinstance(value, (int, float)) and any(word in path for word in ("peak", "moved", "traffic", "bytes_per_step"))
    return {path: value} if is_amount else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    two_builds.add_builds(parser)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=64)
    parser.add_argument("--equal", action="store_true", help="another plan is a failure, whether it is better or worse")
    arguments = parser.parse_args()
    pick = random.Random(arguments.seed)
    planned = refused = different = worse = instructions = 0
    old_seconds = new_seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        run_file = os.path.join(folder, "run.yaml")
        for number in range(arguments.runs):
            run = random_run(pick, folder, arguments.largest)
            pathlib.Path(run_file).write_text(json.dumps(run))
            old, old_refusal, seconds = plan(arguments.old, run_file)
            old_seconds += seconds
            new, new_refusal, seconds = plan(arguments.new, run_file)
            new_seconds += seconds
            planned, refused = planned + (old is not None), refused + (old is None)
            instructions += old.count("\n") if old else 0
            if (old, old_refusal) == (new, new_refusal):
                continue
            different += 1
            print(f"run {number} differs: {json.dumps(run)}\n  old: {old_refusal}\n  new: {new_refusal}")
            if old is None or new is None:
                worse += new is None or old_refusal is not None
                continue
            before, after = (amounts(two_builds.split_plan(text)[1]) for text in (old, new))
            changed = {name: (before.get(name), after.get(name)) for name in before | after
                       if before.get(name) != after.get(name)}
            worse += any(a is None or b is None or b > a for a, b in changed.values())
            print(f"  peaks and bytes: {changed or 'equal'}")
    print(f"{arguments.runs} runs of seed {arguments.seed}: {planned} planned, {refused} refused; {different} differ, {worse} of them "
          f"for the worse; {instructions} lines of program; CPU seconds {old_seconds:.1f} before, {new_seconds:.1f} after")
    sys.exit(1 if worse or (arguments.equal and different) else 0)


if __name__ == "__main__":
    main()
