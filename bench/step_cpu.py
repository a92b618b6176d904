#!/usr/bin/env python3
"""CPU seconds of a GPT-2 124M step on one thread, strata beside PyTorch eager and compiled, in interleaved rounds.

CPU seconds, since they hardly change on a machine that others use too. Strata's are those of a run of three steps less
those of one step, halved; PyTorch's are the medians that it measures. STRATA_VECTOR_TARGET=avx2 caps all of them.

    STRATA_VECTOR_TARGET=avx2 bench/step_cpu.py --precision fp32 --rounds 5
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--microbatch", type=int, default=2, help="sequences of 512 tokens, one microbatch in a step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["strata", "eager", "compiled"])
    parser.add_argument("--strata", default=str(ROOT / "build/strata"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    return parser.parse_args()


def capped_environment():
    environment = dict(os.environ)
    if environment.get("STRATA_VECTOR_TARGET") == "avx2":
        environment.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
    return environment


def run(command):
    """Its output and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            env=capped_environment()).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return output, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def strata_seconds(arguments):
    def of_run(steps):
        settings = {"train.steps": steps, "train.batch": arguments.microbatch, "train.microbatch": arguments.microbatch,
                    "train.threads": 1, "train.precision": arguments.precision, "optimizer.schedule.warmup": 0,
                    "memory.device": "unlimited", "memory.host": "8GiB", "checkpoint": "none"}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return run([arguments.strata, "train", str(ROOT / "examples/gpt2-124m.yaml"), *sets, "--json", "-"])[1]
    return (of_run(3) - of_run(1)) / 2


def pytorch_seconds(arguments, *options):
    output, _ = run([arguments.python, str(ROOT / "bench/pytorch_train.py"), "--microbatch", str(arguments.microbatch),
                     "--microbatches", "1", "--threads", "1", "--steps", "3", "--precision", arguments.precision, *options])
    return statistics.median(json.loads(output)["step_cpu_seconds"])


def main():
    arguments = parse_arguments()
    programs = {"strata": lambda: strata_seconds(arguments), "eager": lambda: pytorch_seconds(arguments),
                "compiled": lambda: pytorch_seconds(arguments, "--compile")}
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append({name: programs[name]() for name in arguments.only})
        print(rounds[-1], file=sys.stderr, flush=True)
    for name in arguments.only:
        ratios = [row[name] / row[arguments.only[0]] for row in rounds]
        print(f"{name}: {statistics.median(row[name] for row in rounds):.2f} CPU seconds, "
              f"{statistics.median(ratios):.3f} of {arguments.only[0]}'s ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
