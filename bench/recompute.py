#!/usr/bin/env python3
"""Trains GPT-2 124M and a Llama of 350 million parameters with two builds of strata in turn, and compares their steps.

The models have parts of the device memory that they would take, and a slow link. The builds differ in what they save, recompute or send
to the host.

    bench/recompute.py OLD NEW [--link 0.15] [--flops 650] [--precision bf16] [--rounds 3] [--steps 3] [--models "GPT-2 124M"] [--plan-only]

--link is GB/s of either direction, --flops what the machine computes in GFLOP/s: both builds plan by them. A step's time is the median of a
run's steps after the first; the table has medians over rounds, and the median of the rounds' ratios old / new. --plan-only prints what the
planner expects instead. Needs nothing but Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS = {
    "GPT-2 124M": ("gpt2", {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}),
    "Llama 350M": ("llama", {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 16,
                             "intermediate_size": 2816, "vocab_size": 32000}),
}
PARTS = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "3/4": 3 / 4}


def strata(build, verb, run):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(run, file)
        file.flush()
        process = subprocess.run([build, verb, file.name, "--json", "-"], capture_output=True, text=True)
    if process.returncode != 0:
        return None
    return json.loads(process.stdout[process.stdout.index("{"):])


def run_of(model, device, profile, arguments):
    architecture, config = MODELS[model]
    run = {
        "model": {"architecture": architecture, "config": config},
        "checkpoint": {"path": ""},  # older builds know no other word for none
        "data": {"path": "/usr/include/c++/**/*", "tokenizer": "bytes", "sequence_length": 512},
        "train": {"steps": arguments.steps, "batch": 8, "microbatch": 2, "precision": arguments.precision, "threads": 2},
        "optimizer": {"lr": 1e-4, "schedule": {"warmup": 1}},
        "memory": {"device": device, "host": "12GiB"},
        "plan": {"machine": profile},
    }
    if device != "12GiB":
        run["device"] = {"link": {"h2d": f"{arguments.link}GB/s", "d2h": f"{arguments.link}GB/s"}}
    return run


def estimate(report, arguments):
    flops = report["flops"]["executed"] / (arguments.flops * 1e9)
    h2d, d2h = (report["traffic"][link]["planned_bytes"] / (arguments.link * 1e9) for link in ("h2d", "d2h"))
    return max(flops, h2d, d2h)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--link", type=float, default=0.15)
    parser.add_argument("--flops", type=float, default=650)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--plan-only", action="store_true")
    arguments = parser.parse_args()
    builds = [str(pathlib.Path(build).resolve()) for build in (arguments.old, arguments.new)]

    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        json.dump({"flops_per_second": arguments.flops * 1e9, "memory_bytes_per_second": 60e9, "h2d_bytes_per_second": arguments.link * 1e9,
                   "d2h_bytes_per_second": arguments.link * 1e9, "nvme_read_bytes_per_second": 0, "nvme_write_bytes_per_second": 0,
                   "cores_copy": True}, profile)
        profile.flush()
        print("| model | device | old, s | new, s | old / new |\n|---|---|--:|--:|---|")
        for model in arguments.models:
            need = strata(builds[0], "plan", run_of(model, "12GiB", profile.name, arguments))["memory"]["device"]["planned_peak_bytes"]
            for name, part in PARTS.items():
                run = run_of(model, int(need * part), profile.name, arguments)
                if arguments.plan_only:
                    pairs = [[strata(build, "plan", run) for build in builds]]
                    seconds = [[estimate(report, arguments) if report else None for report in pair] for pair in pairs]
                else:
                    pairs = [[strata(build, "train", run) for build in builds] for _ in range(arguments.rounds)]
                    seconds = [[statistics.median(report["step_seconds"][1:]) if report else None for report in pair] for pair in pairs]
                    hashes = {report["state_hash"] for pair in pairs for report in pair if report}
                    if len(hashes) > 1:
                        sys.exit(f"{model} at {name}: the state differs: {hashes}")
                label = f"| {model} | {name}, {need * part / 2**20:.0f} MiB |"
                if None in (second for pair in seconds for second in pair):
                    print(label + " " + " | ".join("refused" if second is None else f"{second:.2f}" for second in seconds[0]) + " | |", flush=True)
                    continue
                ratios = [old / new for old, new in seconds]
                spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
                old, new = (statistics.median(pair[side] for pair in seconds) for side in (0, 1))
                print(f"{label} {old:.2f} | {new:.2f} | {statistics.median(ratios):.2f}{spread} |", flush=True)


if __name__ == "__main__":
    main()
