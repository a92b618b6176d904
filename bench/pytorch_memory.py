"""Trains a GPT-2 or Llama of transformers with PyTorch on the CPU and prints as one JSON line what memory it took and how long a step was:
what bench/memory.py puts beside `strata train`. The ways are those of bench/pytorch_training.py.

    .venv/bin/python bench/pytorch_memory.py --architecture gpt2 --config '{"n_layer": 4}' --way eager
    .venv/bin/python -m torch.distributed.run --nproc-per-node 2 bench/pytorch_memory.py … --way fsdp

Memory is counted twice. The allocator's counter is torch.profiler's with profile_memory, the bytes of all tensors, from before the
model is made to the end of two steps. VmHWM is the kernel's for the process, from the end of the first step, in a run without the
profiler before that one; what the process had before the model is told beside it. Figures are sums over the processes, with the
allocator of glibc as it comes.
"""
import argparse
import gc
import json
import os
import statistics
import tempfile
import time

import torch.distributed as distributed
from torch.profiler import ProfilerActivity, profile

import pytorch_training
from process_memory import peak_bytes, reset_peak, status_bytes
from pytorch_training import Training


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pytorch_training.add_arguments(parser)
    parser.add_argument("--steps", type=int, default=2, help="timed, after one that is not")
    return parser.parse_args()


def timed(arguments, processes):
    training = Training(arguments, processes)
    training.step()
    reset_peak()
    seconds = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        training.step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), peak_bytes()


def allocated_peak(arguments, processes):
    """The largest sum of the allocator's bytes, which torch.profiler gives with every allocation."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        training = Training(arguments, processes)
        training.step()
        training.step()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(trace)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
    return max(event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]")


def main():
    arguments = parse_arguments()
    rank, ranks = pytorch_training.start(arguments)
    pytorch_training.imports_of_a_model(arguments)
    before = status_bytes("VmRSS")
    seconds, peak = timed(arguments, ranks)
    gc.collect()
    figures = {"rss_before_bytes": before, "rss_peak_bytes": peak, "allocated_peak_bytes": allocated_peak(arguments, ranks)}
    of_all = pytorch_training.of_all_ranks(figures)
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps({"step_seconds": seconds, **{key: sum(one[key] for one in of_all) for key in figures}}))


if __name__ == "__main__":
    main()
