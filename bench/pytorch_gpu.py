"""Trains a GPT-2 or a Llama with PyTorch on one GPU: what `strata train` with device.kind cuda is measured against. Fused
scaled-dot-product attention, torch.compile, torch.optim.AdamW(fused=True), clip_grad_norm_, gradient accumulation, activations
in bf16. Prints one JSON line; where it fails, for lack of memory say, the line is {"error": …} and the exit status 1.

    bench/pytorch_gpu.py --architecture llama --config '{"hidden_size": 2048, …}' --sequence 2048 --microbatch 4 --microbatches 2

--config has the words of Hugging Face's config.json, as model.config of a run file has. --mode is one of
  resident       everything on the GPU
  fsdp2-offload  torch.distributed.fsdp.fully_shard of every block and of the model with CPUOffloadPolicy(pin_memory=True), on one
                 rank: parameters, gradients and AdamW on the CPU. Gradients of a step's microbatches are summed on the GPU first.
                 Blocks recompute their activations
  zero3-offload  DeepSpeed's ZeRO stage 3 on one rank, with parameters and optimizer state on the CPU (its CPUAdam, which it compiles at
                 first). Weights are bf16 with fp32 masters. Blocks recompute their activations and are not compiled
--weights fp32 keeps fp32 parameters that are cast to bf16 for computing: 16 bytes per parameter (parameter, gradient, two moments).
--weights bf16 keeps everything in bf16: 8 bytes per parameter, and a training that is not the same.
--device cpu is for trying the program itself.
"""
import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from process_memory import peak_bytes
from pytorch_common import Windows, deepspeed_config, make_optimizer


class RMSNorm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.empty(size)), epsilon

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale).to(x.dtype) * self.weight.to(x.dtype)


class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x).to(x.dtype)  # autocast makes it fp32


def rotate(x, cosine, sine):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, bias):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, hidden // heads
        self.fused_in = nn.Linear(hidden, (heads + 2 * kv_heads) * self.size, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x, rotation):
        batch, sequence, hidden = x.shape
        heads = self.fused_in(x).view(batch, sequence, -1, self.size).transpose(1, 2)
        query, key, value = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if rotation is not None:
            query, key = rotate(query, *rotation), rotate(key, *rotation)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))


class GPT2MLP(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, intermediate), nn.Linear(intermediate, hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class LlamaMLP(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, norms, attention, mlp):
        super().__init__()
        self.norm1, self.norm2 = norms
        self.attention, self.mlp = attention, mlp
        self.checkpointing, self.compute = False, self.compute_plainly

    def compute_plainly(self, x, rotation):
        x = x + self.attention(self.norm1(x), rotation)
        return x + self.mlp(self.norm2(x))

    def forward(self, x, rotation):
        if self.checkpointing:
            return checkpoint(self.compute, x, rotation, use_reentrant=False)
        return self.compute(x, rotation)


class Model(nn.Module):
    """`sizes` is make_sizes' dictionary."""

    def __init__(self, sizes):
        super().__init__()
        hidden, llama = sizes["hidden"], sizes["architecture"] == "llama"
        self.sizes = sizes

        def norm():
            return RMSNorm(hidden, 1e-6) if llama else LayerNorm(hidden)

        def block():
            mlp = (LlamaMLP if llama else GPT2MLP)(hidden, sizes["intermediate"])
            return Block((norm(), norm()), Attention(hidden, sizes["heads"], sizes["kv_heads"], bias=not llama), mlp)

        self.embedding = nn.Embedding(sizes["vocabulary"], hidden)
        self.positions = None if llama else nn.Embedding(sizes["positions"], hidden)
        self.blocks = nn.ModuleList(block() for _ in range(sizes["layers"]))
        self.norm = norm()
        self.head = nn.Linear(hidden, sizes["vocabulary"], bias=False)
        if sizes["tied"]:
            self.head.weight = self.embedding.weight

    def rotation(self, sequence, device):
        if self.positions is not None:
            return None
        size = self.sizes["hidden"] // self.sizes["heads"]
        frequencies = 10000.0 ** (-torch.arange(0, size, 2, device=device) / size)
        angles = torch.outer(torch.arange(sequence, device=device), frequencies)
        return angles.cos().bfloat16(), angles.sin().bfloat16()

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[:tokens.shape[1]]
        x, rotation = x.bfloat16(), self.rotation(tokens.shape[1], tokens.device)
        for block in self.blocks:
            x = block(x, rotation)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def make_sizes(architecture, config):
    """Hugging Face's words and defaults as ours."""
    if architecture == "gpt2":
        hidden = config.get("n_embd", 768)
        heads = config.get("n_head", 12)
        return {"architecture": "gpt2", "vocabulary": config.get("vocab_size", 50257), "hidden": hidden, "heads": heads,
                "kv_heads": heads, "layers": config.get("n_layer", 12), "intermediate": config.get("n_inner", 4 * hidden),
                "positions": config.get("n_positions", 1024), "tied": config.get("tie_word_embeddings", True)}
    heads = config.get("num_attention_heads", 32)
    return {"architecture": "llama", "vocabulary": config.get("vocab_size", 32000), "hidden": config.get("hidden_size", 4096),
            "heads": heads, "kv_heads": config.get("num_key_value_heads", heads),
            "layers": config.get("num_hidden_layers", 32), "intermediate": config.get("intermediate_size", 11008),
            "tied": config.get("tie_word_embeddings", False)}


@torch.no_grad()
def fill(model):
    """Random weights, quickly: one piece of normal numbers over and over. Norms are 1, biases 0."""
    piece = 0.02 * torch.randn(1_000_003)
    for name, parameter in model.named_parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        if parameter.dim() < 2:
            local.fill_(0.0 if name.endswith("bias") else 1.0)
            continue
        source = piece.to(local.device, local.dtype)
        for part in local.view(-1).split(len(source)):
            part.copy_(source[:len(part)])


def be_the_only_rank():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")


def shard(model, arguments):
    """FSDP2 on one rank, with parameters, gradients and the optimizer's state on the CPU."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    be_the_only_rank()
    on_gpu = arguments.device == "cuda"
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    options = {"mesh": init_device_mesh(arguments.device, (1,)), "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16),
               "offload_policy": CPUOffloadPolicy(pin_memory=True) if on_gpu else OffloadPolicy()}
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)


def make_engine(model, arguments):
    """DeepSpeed's ZeRO stage 3 on one rank, with parameters and the optimizer's state on the CPU."""
    import deepspeed
    be_the_only_rank()
    on_cpu = {"device": "cpu", "pin_memory": arguments.device == "cuda"}
    engine, *_ = deepspeed.initialize(model=model, config=deepspeed_config(
        arguments.microbatch, arguments.microbatches, True,
        {"stage": 3, "offload_param": on_cpu, "offload_optimizer": on_cpu, "overlap_comm": True}, own_optimizer=True))
    return engine


def make_model(arguments):
    offload, deepspeed = arguments.mode == "fsdp2-offload", arguments.mode == "zero3-offload"
    dtype = torch.bfloat16 if deepspeed or arguments.weights == "bf16" else torch.float32
    with torch.device("meta"):
        model = Model(make_sizes(arguments.architecture, json.loads(arguments.config))).to(dtype)
    for block in model.blocks:
        block.checkpointing = offload or deepspeed or arguments.checkpointing
        if offload and arguments.compile:  # compiled by block, inside of what FSDP does before and after each
            block.compute = torch.compile(block.compute_plainly)
    if offload:
        shard(model, arguments)
    model.to_empty(device="cpu" if offload or deepspeed else arguments.device)
    if model.sizes["tied"]:  # to_empty separates them
        model.head.weight = model.embedding.weight
    fill(model)
    return model


def train_step(model, forward, optimizer, windows, arguments):
    offload, total = arguments.mode == "fsdp2-offload", 0
    autocast = arguments.weights == "fp32" and not offload
    for index in range(arguments.microbatches):
        if offload:
            model.set_requires_gradient_sync(index == arguments.microbatches - 1)
        tokens, targets = windows.next(arguments.microbatch, arguments.device)
        with torch.autocast(arguments.device, torch.bfloat16, enabled=autocast):
            loss = forward(tokens, targets) / arguments.microbatches
        loss.backward()
        total = total + loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return total.item()


def engine_step(engine, windows, arguments):
    total = 0
    for _ in range(arguments.microbatches):
        loss = engine(*windows.next(arguments.microbatch, engine.device))
        engine.backward(loss)
        engine.step()  # updates after the last microbatch
        total = total + loss.detach() / arguments.microbatches
    return total.item()


def train(arguments):
    torch.manual_seed(1)
    model = make_model(arguments)
    parameters = sum(p.numel() for p in model.parameters())
    windows = Windows(arguments.file, arguments.sequence)
    on_gpu = arguments.device == "cuda"
    if arguments.mode == "zero3-offload":
        engine = make_engine(model, arguments)

        def take_step():
            return engine_step(engine, windows, arguments)
    else:
        optimizer = make_optimizer(list(model.parameters()))
        forward = torch.compile(model) if arguments.compile and arguments.mode == "resident" else model

        def take_step():
            return train_step(model, forward, optimizer, windows, arguments)

    seconds, losses = [], []
    for step in range(arguments.warmup + arguments.steps):
        if on_gpu and step == arguments.warmup:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        losses.append(take_step())
        if on_gpu:
            torch.cuda.synchronize()
        if step >= arguments.warmup:
            seconds.append(time.perf_counter() - start)
    tokens = arguments.sequence * arguments.microbatch * arguments.microbatches
    return {"torch": torch.__version__, "mode": arguments.mode, "weights": arguments.weights, "compiled": arguments.compile,
            "parameters": parameters, "bytes_per_parameter": 16 if arguments.weights == "fp32" else 8,
            "microbatch": arguments.microbatch, "microbatches": arguments.microbatches, "tokens_per_step": tokens,
            "step_seconds": seconds, "median_step_seconds": statistics.median(seconds),
            "tokens_per_second": tokens / statistics.median(seconds),
            "peak_device_bytes": torch.cuda.max_memory_reserved() if on_gpu else 0,
            "peak_device_bytes_in_use": torch.cuda.max_memory_allocated() if on_gpu else 0,
            "peak_rss_bytes": peak_bytes(), "loss": losses}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=["gpt2", "llama"], required=True)
    parser.add_argument("--config", default="{}", help="JSON of sizes")
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=1, help="accumulated per step")
    parser.add_argument("--steps", type=int, default=3, help="measured")
    parser.add_argument("--warmup", type=int, default=2, help="steps before these")
    parser.add_argument("--mode", choices=["resident", "fsdp2-offload", "zero3-offload"], default="resident")
    parser.add_argument("--weights", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--checkpointing", action="store_true", help="recompute blocks in the backward pass")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--file", help="its bytes are the tokens; random bytes otherwise")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # DeepSpeed's words
            result = train(arguments)
        print(json.dumps(result))
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        lines = str(error).splitlines() or [""]
        print(json.dumps({"error": f"{type(error).__name__}: {lines[0]}"}))
        sys.exit(1)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
