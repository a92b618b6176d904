#!/usr/bin/env python3
"""Measures what tracing costs on a model whose steps are short: many instructions a second are the worst case.

    bench/tracing.py [--rounds 9] [--steps 300] [--hidden 256] [--layers 4]

Runs take turns: A no trace, B every step through report.trace, C --profile, which records one step. The table has the medians over rounds of the
median step, and of the ratios to A of the same round. The first and last fifth of a run's steps do not count. Needs Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_of(arguments):
    return {
        "model": {"architecture": "llama",
                  "config": {"vocab_size": 256, "hidden_size": arguments.hidden, "num_hidden_layers": arguments.layers,
                             "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 3 * arguments.hidden,
                             "max_position_embeddings": 256}},
        "data": {"path": "/usr/include/c++/**/*", "tokenizer": "bytes", "sequence_length": arguments.sequence},
        "train": {"steps": arguments.steps, "batch": 4, "microbatch": 1, "precision": "fp32"},
        "memory": {"device": arguments.device},
    }


def step_seconds(folder, run, *options):
    run_file = folder / "run.yaml"
    run_file.write_text(json.dumps(run))
    subprocess.run([ROOT / "build/strata", "train", run_file, "--json", folder / "report.json", *options], check=True,
                   capture_output=True)
    report = json.loads((folder / "report.json").read_text())
    steps = report["step_seconds"]
    return statistics.median(steps[len(steps) // 5:-len(steps) // 5]), report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--device", default="unlimited", help="budget of the device; less makes more instructions")
    arguments = parser.parse_args()
    names = {"A": "no trace", "B": "every step in report.trace", "C": "--profile"}
    seconds = {name: [] for name in names}
    hashes = set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for _ in range(arguments.rounds):
            for kind in names:
                run = run_of(arguments)
                trace = folder / "trace.pftrace"
                trace.unlink(missing_ok=True)
                if kind == "B":
                    run["report"] = {"trace": {"path": str(trace), "steps": f"1-{arguments.steps}"}}
                median, report = step_seconds(folder, run, *(["--profile", folder / "profile"] if kind == "C" else []))
                seconds[kind].append(median)
                hashes.add(report["state_hash"])
                if kind == "B":
                    trace_bytes = trace.stat().st_size
        lanes = json.loads((folder / "profile/summary.json").read_text())["measured"][0]["lanes"]
    assert len(hashes) == 1, "tracing changed the result"
    instructions = sum(lane["slices"] for lane in lanes.values())
    base = statistics.median(seconds["A"])
    print(f"{instructions} instructions a step, {instructions / base:,.0f} a second; {trace_bytes / arguments.steps / 1024:.0f} KiB of trace a step\n")
    print("| | step (ms) | step / A | range of rounds |\n|---|--:|--:|---|")
    for kind, text in names.items():
        ratios = [own / other for own, other in zip(seconds[kind], seconds["A"])]
        print(f"| {kind}: {text} | {1000 * statistics.median(seconds[kind]):.2f} | {statistics.median(ratios):.4f} | "
              f"{min(ratios):.4f} to {max(ratios):.4f} |")


if __name__ == "__main__":
    main()
