#!/usr/bin/env python3
"""How far planned steps are above what no plan beats, over models x links x microbatches x caps of memory.

    bench/certificate.py [--strata build/strata] [--csv FILE] [--before OTHER]

Caps are shares of what the run needs with memory enough; those that are refused are left out. Nothing is measured: rates are those below, so
every machine gives the same table. OTHER is a strata of before, whose planned steps are compared with the same memory. Needs nothing but Python's standard library.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import tempfile

MODELS = {
    "llama 30 M": ({"architecture": "llama", "config": {
        "num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 1376,
        "vocab_size": 4096}}, 512),
    "gpt2 124 M": ({"architecture": "gpt2", "config": {
        "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}}, 1024),
    "llama 1 B": ({"architecture": "llama", "config": {
        "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
        "vocab_size": 128256, "tie_word_embeddings": True}}, 2048),
    "llama 8 B": ({"architecture": "llama", "config": {
        "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256}}, 4096),
}
GPU = {"flops_per_second": 6e14, "memory_bytes_per_second": 2e11, "nvme_read_bytes_per_second": 6e9, "nvme_write_bytes_per_second": 4e9,
       "cores_copy": False}
CPU = {"flops_per_second": 8e11, "memory_bytes_per_second": 3.2e10, "nvme_read_bytes_per_second": 6e9, "nvme_write_bytes_per_second": 4e9,
       "cores_copy": True}
MACHINES = {
    "CPU, link 16 GB/s": {**CPU, "h2d_bytes_per_second": 1.6e10, "d2h_bytes_per_second": 1.6e10},
    "CPU, link 1 GB/s": {**CPU, "h2d_bytes_per_second": 1e9, "d2h_bytes_per_second": 1e9},
    "GPU, link 50 GB/s": {**GPU, "h2d_bytes_per_second": 5e10, "d2h_bytes_per_second": 5e10},
    "GPU, link 12 GB/s": {**GPU, "h2d_bytes_per_second": 1.2e10, "d2h_bytes_per_second": 1.2e10},
}
MICROBATCHES = [1, 4, 16]
CAPS = [1, 0.5, 0.25, 0.12, 0.06]
DRIVES = "0.12 and drives"


def plan(strata, folder, model, machine, microbatches, memory):
    """What `strata plan --json` says, or nothing if it refuses."""
    section, sequence = MODELS[model]
    profile, run, answer = (os.path.join(folder, name) for name in ("profile.json", "run.yaml", "plan.json"))
    pathlib.Path(profile).write_text(json.dumps(MACHINES[machine]))
    pathlib.Path(run).write_text(json.dumps({
        "model": section, "data": {"path": ["tokens.bin"], "tokenizer": "none", "sequence_length": sequence},
        "train": {"steps": 10, "batch": microbatches, "microbatch": 1, "precision": "bf16"}, "memory": memory,
        "plan": {"machine": profile}}))
    done = subprocess.run([strata, "plan", run, "--json", answer], capture_output=True, text=True)
    if done.returncode == 2 and "memory." in done.stderr:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{model}, {machine}, {microbatches} microbatches, {memory}: {done.stderr}")
    return json.loads(pathlib.Path(answer).read_text())


def memories(strata, folder, model, machine, microbatches):
    """By name, from all that the run could use to the least share of it."""
    roomy = {"device": "64TiB", "host": "64TiB"}
    peak = plan(strata, folder, model, machine, microbatches, roomy)["memory"]["device"]["planned_peak_bytes"]
    for cap in CAPS:
        yield str(cap), {"device": int(peak * cap), "host": "64TiB"}
    yield DRIVES, {"device": int(peak * 0.12), "host": int(peak * 0.5), "nvme": {"path": [folder], "size": "64TiB"}}


def share(gaps, most):
    return sum(gap <= most for gap in gaps) / len(gaps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default="build/strata")
    parser.add_argument("--csv", help="a row for each plan")
    parser.add_argument("--before", help="another strata")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            for machine in MACHINES:
                for microbatches in MICROBATCHES:
                    for cap, memory in memories(arguments.strata, folder, model, machine, microbatches):
                        answer = plan(arguments.strata, folder, model, machine, microbatches, memory)
                        if answer is None:
                            continue
                        certificate = answer["certificate"]
                        before = arguments.before and plan(arguments.before, folder, model, machine, microbatches, memory)
                        rows.append({"model": model, "machine": machine, "microbatches": microbatches, "cap": cap,
                                     "order": answer["order"], "planned": certificate["planned_seconds"],
                                     "bound": certificate["bound_seconds"], "gap": certificate["gap"], "by": certificate["by"],
                                     **{f"{argument} alone": seconds for argument, seconds in certificate["alone"].items()}})
                        if before:
                            rows[-1]["planned before"] = before["certificate"]["planned_seconds"]
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            for row in rows:
                writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    print("| plans | number | gap <= 5 % | gap <= 10 % | mean gap | largest |\n|---|--:|--:|--:|--:|--:|")

    def line(name, chosen):
        gaps = [row["gap"] for row in rows if chosen(row)]
        if gaps:
            print(f"| {name} | {len(gaps)} | {share(gaps, 0.05):.0%} | {share(gaps, 0.1):.0%} | {sum(gaps) / len(gaps):.1%} | {max(gaps):.1%} |")

    line("all", lambda row: True)
    for key, values in (("model", MODELS), ("machine", MACHINES), ("microbatches", MICROBATCHES), ("cap", [str(cap) for cap in CAPS] + [DRIVES]),
                        ("by", ["compute", "h2d", "d2h", "cpu", "cores", "memory", "drives", "order"])):
        for value in values:
            line(f"{key} {value}", lambda row: row[key] == value)
    if arguments.before:
        ratios = [row["planned"] / row["planned before"] for row in rows if "planned before" in row]
        print(f"\nOf {len(ratios)} plans {sum(r < 0.95 for r in ratios)} are shorter than before by 5 % or more, "
              f"{sum(r < 0.999 for r in ratios)} by 0.1 % or more, {sum(r > 1.001 for r in ratios)} are longer by that; from {min(ratios) - 1:+.1%} "
              f"to {max(ratios) - 1:+.1%}, mean {sum(ratios) / len(ratios) - 1:+.1%}.")
    below = [row for row in rows if row["gap"] < -1e-9]
    print(f"\n{len(below)} plans are below their bound.")


if __name__ == "__main__":
    main()
