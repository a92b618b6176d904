"""Whether full fine-tuning of an 8B model fits small cards, and how long a step takes, by rule and format of the optimizer's state.

    python3 bench/plan_rules.py                  # a Markdown table; ten minutes of CPU, and no GPU

Llama 3.1 8B in bf16, 16 sequences of 2048 tokens in microbatches of one, planned for cards with 16 and 24 GB beside 64 GiB of host memory,
with and without a drive. Rates are those of examples/machines/4090-desktop.yaml. A card of 16 GB is assumed to have 0.6 of its products.
Rules that keep as many moments move as many bytes, so one stands for all of them but muon, whose products take time, and adafactor,
whose gradients go to the device first.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = {"architecture": "llama", "config": {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "tie_word_embeddings": False}}
RULES = ({"type": "ademamix"}, {"type": "adamw"}, {"type": "muon"}, {"type": "lion"}, {"type": "sgd"}, {"type": "adafactor"})
FORMATS = (
    {}, {"master": "split"}, {"master": "split", "moments": "bf16"}, {"master": "none"}, {"master": "none", "moments": "bf16"}, {"moments": "8bit"},
    {"master": "split", "moments": "8bit"}, {"master": "none", "moments": "8bit"})
# By name: what a driver, CUDA and a desktop leave of the card, and the part of the machine's products that the card has.
CARDS = {"16 GB": ("14.5GiB", 0.6), "24 GB": ("22.5GiB", 1)}
HOST = "60GiB"  # of 64, what a system leaves


def machine_file(folder, name, has_drive):
    """The desktop's file with this card, 64 GiB, and a drive or none."""
    memory, part = CARDS[name]
    lines = []
    for line in (ROOT / "examples/machines/4090-desktop.yaml").read_text().splitlines():
        key = line.split(":")[0]
        if key.startswith("nvme") and not has_drive:
            continue
        if key == "flops_per_second":
            line = f"{key}: {part * float(line.split()[1])}"
        lines.append({"device_memory_bytes": f"{key}: {memory}", "memory_bytes": f"{key}: {HOST}"}.get(key, line))
    path = pathlib.Path(folder) / f"{name}-{has_drive}.yaml"
    path.write_text("\n".join(lines))
    return path


def planned(strata, optimizer, name, has_drive):
    """Seconds of a step, or nothing if the budgets are too small."""
    with tempfile.TemporaryDirectory() as folder:
        run = {"model": MODEL, "data": {"path": "/usr/share/common-licenses/*", "tokenizer": "bytes", "sequence_length": 2048},
               "train": {"batch": 16, "microbatch": 1, "precision": "bf16"}, "optimizer": optimizer, "checkpoint": "none",
               "memory": {"host": HOST, "nvme": {"path": folder}} if has_drive else {}}
        file, report = pathlib.Path(folder) / "run.yaml", pathlib.Path(folder) / "report.json"
        file.write_text(json.dumps(run))
        process = subprocess.run([strata, "plan", file, "--on", machine_file(folder, name, has_drive), "--json", report],
                                 capture_output=True, text=True)
        if process.returncode == 2 and re.search(r"strata: memory\.", process.stderr):
            return None
        if process.returncode != 0:
            sys.exit(process.stderr)
        return json.loads(report.read_text())["certificate"]["planned_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=str(ROOT / "build/strata"))
    parser.add_argument("--jobs", type=int, default=2, help="plans at once")
    parser.add_argument("--types", nargs="+", default=[rule["type"] for rule in RULES], help="rules to plan")
    arguments = parser.parse_args()
    ways = [(name, has_drive) for name in CARDS for has_drive in (False, True)]
    titles = [f"{name}{', drive' if has_drive else ''}" for name, has_drive in ways]
    print(f"| `optimizer` | {' | '.join(titles)} |\n|---|{'---|' * len(ways)}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = []
        for rule in RULES:
            for each in FORMATS:
                if rule["type"] not in arguments.types:
                    continue
                if rule["type"] in ("sgd", "adafactor") and "moments" in each:
                    continue
                optimizer = rule | each
                cells = [pool.submit(planned, arguments.strata, optimizer, name, has_drive) for name, has_drive in ways]
                rows.append((optimizer, cells))
        for optimizer, cells in rows:
            words = ", ".join(f"{key}: {value}" for key, value in optimizer.items())
            seconds = [cell.result() for cell in cells]
            print(f"| `{{{words}}}` | {' | '.join('no' if each is None else f'{each:.1f} s' for each in seconds)} |", flush=True)


if __name__ == "__main__":
    main()
