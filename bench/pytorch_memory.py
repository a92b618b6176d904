"""Trains a GPT-2 or Llama of transformers with PyTorch on the CPU and prints as one JSON line what memory it took and how long a step was:
what bench/memory.py puts beside `strata train`. AdamW(fused=True), clipping, gradient accumulation, no dropout.

    .venv/bin/python bench/pytorch_memory.py --architecture gpt2 --config '{"n_layer": 4}' --way eager
    .venv/bin/python -m torch.distributed.run --nproc-per-node 2 bench/pytorch_memory.py … --way fsdp

Ways: eager; checkpointing, in which transformers computes each block again in the backward pass; fsdp, which is FSDP2: fully_shard of
each block and of the model, with CPUOffloadPolicy, over gloo; zero2 and zero3, which are DeepSpeed's stages without offloading. bf16 is
autocast with weights of fp32, or the mixed precision of FSDP2 and of DeepSpeed.

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

import torch
import torch.distributed as distributed
from torch.profiler import ProfilerActivity, profile

from process_memory import peak_bytes, reset_peak, status_bytes
from pytorch_common import Windows, make_model, make_optimizer


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=["gpt2", "llama"], required=True)
    parser.add_argument("--config", required=True, help="JSON, in the words of the model's config.json")
    parser.add_argument("--way", choices=["eager", "checkpointing", "fsdp", "zero2", "zero3"], required=True)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4, help="sequences per step, over all processes")
    parser.add_argument("--steps", type=int, default=2, help="timed, after one that is not")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    return parser.parse_args()


def shard(model, arguments):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    half = arguments.precision == "bf16"
    options = {
        "mesh": init_device_mesh("cpu", (distributed.get_world_size(),)),
        "offload_policy": CPUOffloadPolicy(pin_memory=False),
        "mp_policy": MixedPrecisionPolicy(torch.bfloat16 if half else None, torch.float32 if half else None),
    }
    for block in model.transformer.h if arguments.architecture == "gpt2" else model.model.layers:
        fully_shard(block, **options)
    fully_shard(model, **options)


class Training:
    def __init__(self, arguments, processes):
        self.arguments = arguments
        self.microbatches = arguments.batch // (arguments.microbatch * processes)
        self.windows = Windows(None, arguments.sequence)
        self.model = make_model(arguments.architecture, json.loads(arguments.config))
        if arguments.way == "checkpointing":
            self.model.gradient_checkpointing_enable()
        if arguments.way == "fsdp":
            shard(self.model, arguments)
        self.optimizer = make_optimizer(list(self.model.parameters()))
        if arguments.way.startswith("zero"):
            self.give_to_deepspeed()

    def give_to_deepspeed(self):
        import deepspeed
        self.model, *_ = deepspeed.initialize(model=self.model, optimizer=self.optimizer, config={
            "train_micro_batch_size_per_gpu": self.arguments.microbatch,
            "gradient_accumulation_steps": self.microbatches,
            "gradient_clipping": 1.0,
            "bf16": {"enabled": self.arguments.precision == "bf16"},
            "zero_optimization": {"stage": int(self.arguments.way[-1])},
            "zero_allow_untested_optimizer": True,
        })

    def loss(self):
        tokens, targets = self.windows.next(self.arguments.microbatch, "cpu")
        autocast = self.arguments.precision == "bf16" and self.arguments.way in ("eager", "checkpointing")
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = self.model(input_ids=tokens).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def step(self):
        for _ in range(self.microbatches):
            if self.arguments.way.startswith("zero"):
                self.model.backward(self.loss())
                self.model.step()
            else:
                (self.loss() / self.microbatches).backward()
        if not self.arguments.way.startswith("zero"):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


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
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, os.cpu_count() // processes))
    torch.manual_seed(1)
    if several := arguments.way not in ("eager", "checkpointing"):
        distributed.init_process_group("gloo")
    if arguments.way.startswith("zero"):
        import deepspeed  # noqa: F401
    make_model(arguments.architecture, json.loads(arguments.config), device="meta")  # its imports are not training's memory
    before = status_bytes("VmRSS")
    seconds, peak = timed(arguments, processes)
    gc.collect()
    figures = {"rss_before_bytes": before, "rss_peak_bytes": peak, "allocated_peak_bytes": allocated_peak(arguments, processes)}
    if several:
        of_all = [None] * processes
        distributed.all_gather_object(of_all, figures)
        figures = {key: sum(one[key] for one in of_all) for key in figures}
        rank = distributed.get_rank()
        distributed.destroy_process_group()
        if rank != 0:
            return
    print(json.dumps({"step_seconds": seconds, **figures}))


if __name__ == "__main__":
    main()
