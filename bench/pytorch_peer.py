"""Trains a model's folder with PyTorch or DeepSpeed on the CPU: one of the programs that bench/peers.py compares.

Prints one JSON line with the seconds and the mean loss of each step, and the largest resident memory that each process had.

    .venv/bin/python -m torch.distributed.run --standalone --nproc-per-node 2 bench/pytorch_peer.py --model FOLDER --tokens FILE --way fsdp
"""
import argparse
import json
import os
import time

import pytorch_training
from process_memory import peak_bytes, reset_peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pytorch_training.add_arguments(parser)
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones; memory is counted from their end")
    parser.add_argument("--steps", type=int, default=3, help="timed")
    arguments = parser.parse_args()
    rank, ranks = pytorch_training.start(arguments)
    training = pytorch_training.Training(arguments, ranks)
    seconds, losses = [], []
    for step in range(arguments.warmup + arguments.steps):
        if step == arguments.warmup:
            reset_peak()
        start = time.perf_counter()
        losses.append(training.step())
        seconds.append(time.perf_counter() - start)
    peaks = pytorch_training.of_all_ranks(peak_bytes())
    losses = [sum(of_step) / ranks for of_step in zip(*pytorch_training.of_all_ranks(losses))]
    if rank == 0:
        print(json.dumps({"step_seconds": seconds[arguments.warmup:], "rss_bytes": peaks, "loss": losses}), flush=True)
    os._exit(0)  # gloo's threads, if they are torn down, abort the process now and then


if __name__ == "__main__":
    main()
