#!/usr/bin/env python3
"""GFLOP per CPU second of one thread for each fp32 product of a GPT-2 124M step with 2048 tokens: strata's CPU kernels
beside numpy's OpenBLAS and PyTorch's MKL, in interleaved rounds. CPU seconds, since they hardly change on a machine
that others use too. STRATA_VECTOR_TARGET=avx2 caps all of them.

    STRATA_VECTOR_TARGET=avx2 .venv/bin/python bench/products.py --rounds 5
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", STRATA_BENCH_THREADS="1")
if os.environ.get("STRATA_VECTOR_TARGET") == "avx2":
    os.environ.update(OPENBLAS_CORETYPE="Haswell", MKL_ENABLE_INSTRUCTIONS="AVX2")

import numpy  # noqa: E402
import torch  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
HIDDEN, TOKENS, VOCABULARY, ROWS = 768, 2048, 50257, 640
# m, n, k, and whether the operands are stored transposed
PRODUCTS = {
    "qkv": (TOKENS, 3 * HIDDEN, HIDDEN, False, False),
    "up": (TOKENS, 4 * HIDDEN, HIDDEN, False, False),
    "down": (TOKENS, HIDDEN, 4 * HIDDEN, False, False),
    "out": (TOKENS, HIDDEN, HIDDEN, False, False),
    "up_input_gradient": (TOKENS, HIDDEN, 4 * HIDDEN, False, True),
    "down_input_gradient": (TOKENS, 4 * HIDDEN, HIDDEN, False, True),
    "up_weight_gradient": (HIDDEN, 4 * HIDDEN, TOKENS, True, False),
    "down_weight_gradient": (4 * HIDDEN, HIDDEN, TOKENS, True, False),
    "out_weight_gradient": (HIDDEN, HIDDEN, TOKENS, True, False),
    "logits": (ROWS, VOCABULARY, HIDDEN, False, True),
    "logits_input_gradient": (ROWS, HIDDEN, VOCABULARY, False, False),
    "logits_weight_gradient": (VOCABULARY, HIDDEN, ROWS, True, False),
}


def rate(product, multiply):
    m, n, k, transpose_a, transpose_b = product
    a = numpy.random.rand(*((k, m) if transpose_a else (m, k))).astype(numpy.float32)
    b = numpy.random.rand(*((n, k) if transpose_b else (k, n))).astype(numpy.float32)
    out = numpy.empty((m, n), numpy.float32)
    call = multiply(a.T if transpose_a else a, b.T if transpose_b else b, out)
    seconds = []
    for _ in range(4):  # the first makes the library ready
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return 2e-9 * m * n * k / statistics.median(seconds[1:])


def with_numpy(a, b, out):
    return lambda: numpy.matmul(a, b, out=out)


def with_torch(a, b, out):
    operands = torch.from_numpy(a), torch.from_numpy(b)
    to = torch.from_numpy(out)
    return lambda: torch.mm(*operands, out=to)


def strata_rate(bench, name):
    m, n, k, _, _ = PRODUCTS[name]
    output = subprocess.run([bench, f"--benchmark_filter=^matmul/{name}_fp32/", "--benchmark_min_time=0.3",
                             "--benchmark_format=json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    run, = json.loads(output)["benchmarks"]
    return 2e-6 * m * n * k / run["cpu_time"]  # milliseconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", nargs="+", default=[str(ROOT / "build/bench/bench_kernels")],
                        help="one or more builds of bench_kernels")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rates = {name: [] for name in PRODUCTS}
    for _ in range(arguments.rounds):
        for name, product in PRODUCTS.items():
            rates[name].append([strata_rate(bench, name) for bench in arguments.bench] +
                               [rate(product, with_numpy), rate(product, with_torch)])
    print("| product | " + " | ".join(["strata"] * len(arguments.bench)) + " | numpy | torch | strata / best |")
    print("|---" * (len(arguments.bench) + 4) + "|")
    for name, rounds in rates.items():
        medians = [statistics.median(column) for column in zip(*rounds)]
        ratio = statistics.median(row[len(arguments.bench) - 1] / max(row[-2:]) for row in rounds)
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in medians) + f" | {ratio:.2f} |")


if __name__ == "__main__":
    main()
