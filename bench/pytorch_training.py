"""Training of a transformers model with PyTorch on the CPU, in the ways that people train: what bench/pytorch_memory.py and
bench/pytorch_peer.py measure. AdamW, clipping and gradient accumulation; no dropout.

WAYS names them. Several processes are ranks of torch.distributed over gloo; each takes its part of every batch.
"""
import json
import os

import torch
import torch.distributed as distributed
from torch import nn

from pytorch_common import InOrder, Windows, deepspeed_config, load_model, make_model, make_optimizer, parameter_groups

WAYS = {
    "eager": "as transformers has it",
    "checkpointing": "eager, and the backward pass computes each block again",
    "compile": "torch.compile of the model with its loss; DistributedDataParallel around it on several ranks",
    "fsdp": "FSDP2: fully_shard of each block and of the model, with CPUOffloadPolicy",
    "zero2": "DeepSpeed's ZeRO stage 2, without offloading",
    "zero3": "DeepSpeed's ZeRO stage 3, without offloading",
    "zero3-offload": "DeepSpeed's ZeRO stage 3 with parameters and optimizer state offloaded to the CPU, updated by its CPUAdam",
}


def add_arguments(parser):
    """Adds the arguments that Training reads."""
    parser.add_argument("--architecture", choices=["gpt2", "llama"], default="llama")
    parser.add_argument("--config", help="JSON, in the words of the model's config.json: random weights")
    parser.add_argument("--model", help="a model's folder, instead of --config")
    parser.add_argument("--tokens", help="a file of 16-bit token ids, read from its start; random bytes otherwise")
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4, help="sequences per step, over all processes")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16", help="bf16: autocast, or FSDP2's or DeepSpeed's mixed precision")


def start(arguments):
    """Number of this process and of all; joins them if the way needs that."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, os.cpu_count() // ranks))
    torch.manual_seed(1)
    if ranks > 1 or arguments.way.startswith(("fsdp", "zero")):
        distributed.init_process_group("gloo")
    if arguments.way.startswith("zero"):
        import deepspeed  # noqa: F401
    return (distributed.get_rank() if distributed.is_initialized() else 0), ranks


def of_all_ranks(value):
    """This value of each process, in the order of their numbers."""
    if not distributed.is_initialized():
        return [value]
    values = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def imports_of_a_model(arguments):
    """Imports what making a model imports, so that it does not count as training's memory."""
    make_model(arguments.architecture, json.loads(arguments.config or "{}"), device="meta")


class Loss(nn.Module):
    """A model with its loss: what torch.compile and DeepSpeed take as a whole."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def blocks_of(model):
    return model.transformer.h if hasattr(model, "transformer") else model.model.layers


def shard(loss, precision):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    half = precision == "bf16"
    options = {
        "mesh": init_device_mesh("cpu", (distributed.get_world_size(),)),
        "offload_policy": CPUOffloadPolicy(pin_memory=False),
        "mp_policy": MixedPrecisionPolicy(torch.bfloat16 if half else None, torch.float32 if half else None),
    }
    for block in blocks_of(loss.model):
        fully_shard(block, **options)
    fully_shard(loss, **options)


class Training:
    """A model, its data and its optimizer; step() trains one step."""

    def __init__(self, arguments, ranks=1):
        self.arguments, self.ranks = arguments, ranks
        self.rank = distributed.get_rank() if distributed.is_initialized() else 0
        self.microbatches = arguments.batch // (arguments.microbatch * ranks)
        if arguments.tokens:
            self.windows = InOrder(arguments.tokens, arguments.sequence, self.rank, ranks)
        else:
            self.windows = Windows(None, arguments.sequence)
        model = load_model(arguments.model) if arguments.model else make_model(arguments.architecture, json.loads(arguments.config))
        if arguments.way == "checkpointing":
            model.gradient_checkpointing_enable()
        self.loss = Loss(model)
        if arguments.way == "fsdp":
            shard(self.loss, arguments.precision)
        self.is_deepspeed, self.is_replicated = arguments.way.startswith("zero"), False
        if self.is_deepspeed:
            self.give_to_deepspeed()
            return
        self.optimizer = make_optimizer(list(self.loss.parameters()))
        self.is_replicated = arguments.way != "fsdp" and ranks > 1
        if self.is_replicated:
            self.loss = nn.parallel.DistributedDataParallel(self.loss)
        self.compute = torch.compile(self.loss) if arguments.way == "compile" else self.loss

    def give_to_deepspeed(self):
        import deepspeed
        zero, offload = {"stage": int(self.arguments.way[4])}, self.arguments.way == "zero3-offload"
        if offload:  # buckets as transformers' Trainer sizes them for "auto"; the default takes 954 MiB whatever the model
            hidden = self.loss.model.config.hidden_size
            zero |= {"offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}, "overlap_comm": True,
                     "reduce_bucket_size": hidden**2, "stage3_prefetch_bucket_size": int(0.9 * hidden**2),
                     "stage3_param_persistence_threshold": 10 * hidden}
        config = deepspeed_config(self.arguments.microbatch, self.microbatches, self.arguments.precision == "bf16", zero, offload)
        parameters = list(self.loss.parameters())
        if offload:
            options = {"model_parameters": parameter_groups(parameters)}
        else:
            options = {"optimizer": make_optimizer(parameters)}
        self.compute, *_ = deepspeed.initialize(model=self.loss, config=config, **options)

    def microbatch_loss(self):
        tokens, targets = self.windows.next(self.arguments.microbatch, "cpu")
        autocast = self.arguments.precision == "bf16" and self.arguments.way in ("eager", "checkpointing", "compile")
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return self.compute(tokens, targets)

    def step(self):
        """One step; the mean loss of this process's microbatches, before the update."""
        total = 0.0
        for index in range(self.microbatches):
            if self.is_replicated:
                self.loss.require_backward_grad_sync = index == self.microbatches - 1  # as no_sync() does
            loss = self.microbatch_loss()
            total += loss.item() / self.microbatches
            if self.is_deepspeed:
                self.compute.backward(loss)
                self.compute.step()  # updates after the last microbatch
                continue
            (loss / self.microbatches).backward()
        if not self.is_deepspeed:
            nn.utils.clip_grad_norm_(self.loss.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return total
