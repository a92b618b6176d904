#!/usr/bin/env python3
"""Times Strata beside PyTorch and DeepSpeed on the CPU, and prints a Markdown table of step times, peak memory and losses.

    bench/peers.sh [--quick] [OPTIONS]        makes the Python environment, then runs this program with it

The programs train one Llama with the same weights on the same sequences, with AdamW, clipping and gradient accumulation:
  strata            build/strata train, as much memory as it wants, or --device-memory
  compile           torch.compile; DistributedDataParallel around it on several ranks
  fsdp              FSDP2: fully_shard of each block with CPUOffloadPolicy
  zero3-offload     DeepSpeed ZeRO stage 3, parameters and optimizer state offloaded to the CPU, updated by its CPUAdam
bench/pytorch_training.py has the details. Activations are saved, not recomputed. Ranks share the cores evenly.

How it measures:
  interleaved       each round runs every program on every number of ranks, in an order that changes from round to round
  step              mean seconds of the timed steps of a run; Strata's updates after its last step count as well
  ratio             this program over Strata on as many ranks, within one round; the table has the median and the range
  peak memory       the kernel's VmHWM of each process, from the end of the warm-up (Strata: of the first step) to the last
                    step; the largest of a run's ranks
  loss              of the last step. All programs must agree within 0.1 % in fp32 and 2 % in bf16, or the exit status is 1

Quote figures only from a machine on which nothing else runs.
"""

import argparse
import array
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import pytorch_runs
from memory_runs import seconds_of, train

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"strata": "Strata", "compile": "torch.compile", "fsdp": "FSDP2", "zero3-offload": "DeepSpeed ZeRO-3, offload"}
QUICK = {"layers": 3, "hidden": 128, "vocabulary": 512, "sequence": 64, "batch": 8, "microbatch": 2, "steps": 3, "rounds": 1}
UNTIMED = 2  # steps: torch.compile compiles in the first, and allocators settle


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model and one round: tries the programs, measures nothing worth quoting")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help=f"timed steps of each run, after {UNTIMED} that are not")
    parser.add_argument("--precision", choices=["fp32", "bf16"], help="default: bf16 if the CPU has instructions for it, else fp32")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8, help="sequences per step, over all ranks")
    parser.add_argument("--microbatch", type=int, default=4)
    parser.add_argument("--device-memory", default="unlimited", help="memory.device of Strata, such as 600MiB")
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3", help="a file whose bytes are the tokens")
    parser.add_argument("--plain-allocator", action="store_true", help="PyTorch without huge pages and with glibc's own settings")
    parser.add_argument("--strata", default=str(HERE.parent / "build/strata"))
    parser.add_argument("--python", default=sys.executable, help="Python with the packages of bench/peers-requirements.txt")
    if "--quick" in sys.argv:
        parser.set_defaults(**QUICK)
    arguments = parser.parse_args()
    arguments.precision = arguments.precision or ("bf16" if has_bf16() else "fp32")
    for ranks in arguments.ranks:
        if arguments.batch % (arguments.microbatch * ranks) != 0:
            parser.error(f"--batch {arguments.batch} does not divide into microbatches of {arguments.microbatch} on {ranks} ranks")
    return arguments


def has_bf16():
    return bool({"avx512_bf16", "amx_bf16"} & set(pathlib.Path("/proc/cpuinfo").read_text().split()))


def config_of(arguments):
    heads = max(1, arguments.hidden // 64)
    return {"vocab_size": arguments.vocabulary, "hidden_size": arguments.hidden, "num_hidden_layers": arguments.layers,
            "num_attention_heads": heads, "num_key_value_heads": heads, "intermediate_size": 32 * (arguments.hidden * 8 // 3 // 32),
            "max_position_embeddings": arguments.sequence, "tie_word_embeddings": True}


def make_inputs(arguments, folder):
    """A model's folder with random weights, and a file of 16-bit token ids."""
    code = ("import json, sys, torch; from pytorch_common import make_model; torch.manual_seed(1); "
            "make_model('llama', json.loads(sys.argv[1])).save_pretrained(sys.argv[2])")
    pytorch_runs.run(arguments.python, ["-c", code, json.dumps(config_of(arguments)), str(folder / "model")])
    text = pathlib.Path(arguments.text).read_bytes()
    needed = (UNTIMED + arguments.steps) * arguments.batch * arguments.sequence + 1
    tokens = array.array("H", list((text * (needed // len(text) + 1))[:needed]))
    with (folder / "tokens.bin").open("wb") as file:
        tokens.tofile(file)


def run_strata(arguments, folder, ranks):
    report = train(arguments.strata, {
        "model": {"path": str(folder / "model")}, "checkpoint": "none",
        "data": {"path": str(folder / "tokens.bin"), "tokenizer": "none", "token_bytes": 2, "sequence_length": arguments.sequence,
                 "shuffle": False, "validation_fraction": 0},
        "train": {"steps": UNTIMED + arguments.steps, "batch": arguments.batch, "microbatch": arguments.microbatch,
                  "precision": arguments.precision, "threads": max(1, os.cpu_count() // ranks)},
        "memory": {"device": arguments.device_memory, "host": "unlimited"},
        "parallel": {"data": ranks},
    }, ranks)
    return {"seconds": seconds_of(report, UNTIMED), "peak_bytes": max(report["rss_bytes"]["ranks"]), "loss": report["loss"][-1]}


def run_peer(arguments, folder, ranks, way):
    extensions = pathlib.Path(arguments.python).parent.parent / "extensions"  # what DeepSpeed compiles
    environment = {"TORCH_EXTENSIONS_DIR": os.environ.get("TORCH_EXTENSIONS_DIR", str(extensions))}
    if not arguments.plain_allocator:  # the fastest settings that were found for PyTorch
        environment |= {"THP_MEM_ALLOC_ENABLE": "1", "GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=2147483647"}
    words = [str(HERE / "pytorch_peer.py"), "--model", str(folder / "model"), "--tokens", str(folder / "tokens.bin"), "--way", way,
             "--sequence", str(arguments.sequence), "--batch", str(arguments.batch), "--microbatch", str(arguments.microbatch),
             "--precision", arguments.precision, "--warmup", str(UNTIMED), "--steps", str(arguments.steps)]
    report = json.loads(pytorch_runs.run(arguments.python, words, ranks, environment).splitlines()[-1])
    return {"seconds": statistics.mean(report["step_seconds"]), "peak_bytes": max(report["rss_bytes"]), "loss": report["loss"][-1]}


def measure(arguments, folder):
    """{(program, ranks): a figure for each round}."""
    pairs = [(program, ranks) for ranks in arguments.ranks for program in arguments.programs]
    figures = {pair: [] for pair in pairs}
    for number in range(arguments.rounds):
        first = number % len(pairs)
        for program, ranks in pairs[first:] + pairs[:first]:
            one = run_strata(arguments, folder, ranks) if program == "strata" else run_peer(arguments, folder, ranks, program)
            figures[program, ranks].append(one)
            print(f"round {number + 1}: {PROGRAMS[program]}, {ranks} rank{'s' if ranks > 1 else ''}: {one['seconds']:.3f} s, "
                  f"{one['peak_bytes'] / 2**20:.0f} MiB, loss {one['loss']:.4f}", file=sys.stderr, flush=True)
    return figures


def ratios_of(figures, strata, key):
    ratios = [one[key] / other[key] for one, other in zip(figures, strata)]
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{statistics.median(ratios):.2f}{spread}"


def print_table(arguments, figures):
    tokens = arguments.batch * arguments.sequence
    print("| program | ranks | step, s | tokens/s | its time / Strata's | peak memory a rank, MiB | its memory / Strata's | last loss |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for (program, ranks), of_rounds in figures.items():
        seconds = statistics.median(one["seconds"] for one in of_rounds)
        peak = statistics.median(one["peak_bytes"] for one in of_rounds)
        strata = figures.get(("strata", ranks))
        time, memory = (ratios_of(of_rounds, strata, key) if strata else "" for key in ("seconds", "peak_bytes"))
        print(f"| {PROGRAMS[program]} | {ranks} | {seconds:.3f} | {tokens / seconds:.0f} | {time} | {peak / 2**20:.0f} | {memory} | "
              f"{of_rounds[-1]['loss']:.4f} |")


def print_setting(arguments):
    words = pathlib.Path("/proc/cpuinfo").read_text()
    name = next((line.split(":")[1].strip() for line in words.splitlines() if line.startswith("model name")), platform.machine())
    versions = pytorch_runs.run(arguments.python, ["-c", "import importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in "
                                                         "('torch', 'transformers', 'deepspeed')), sep=', ')"]).strip()
    print(f"{datetime.date.today()}, {os.cpu_count()} cores of {name}, {versions}; Llama of {arguments.layers} layers x "
          f"{arguments.hidden}, vocabulary {arguments.vocabulary}, {arguments.precision}, {arguments.batch} x {arguments.sequence} tokens a "
          f"step in microbatches of {arguments.microbatch}; {arguments.rounds} round{'s' if arguments.rounds > 1 else ''} of {arguments.steps} steps, after {UNTIMED} untimed.\n")
    print("    bench/peers.sh", *sys.argv[1:], "\n")


def losses_agree(arguments, figures):
    losses = [one["loss"] for of_rounds in figures.values() for one in of_rounds]
    return max(losses) - min(losses) <= (1e-3 if arguments.precision == "fp32" else 2e-2) * max(losses)


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_inputs(arguments, folder)
        figures = measure(arguments, folder)
    print_setting(arguments)
    print_table(arguments, figures)
    if not losses_agree(arguments, figures):
        sys.exit("The last losses differ: the programs did not train the same thing, so do not compare them.")


if __name__ == "__main__":
    main()
