"""Trains GPT-2 with PyTorch on the CPU: what `strata train` is measured against. bf16 autocast or fp32, fused scaled-dot-product
attention, torch.optim.AdamW(fused=True), clip_grad_norm_, gradient accumulation. Prints one JSON line.

    .venv/bin/python bench/pytorch_train.py --microbatch 4 --microbatches 8 --threads 2 [--compile] [--checkpointing]

The default model is a lean one (nanoGPT's, without dropout), which is faster than transformers'; --implementation hf takes that one.
The settings are the fastest that were found for PyTorch: huge pages and memory that is kept rather than returned to
the system (--plain-allocator turns that off).
"""
import argparse
import ctypes
import json
import os
import resource
import statistics
import sys
import time


def use_fast_allocator():
    """Huge pages for tensors, read by torch when it is imported, and no munmap of what the next step needs again."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    m_trim_threshold, m_mmap_max = -1, -4  # malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(m_mmap_max, 0)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


if "--plain-allocator" not in sys.argv:
    use_fast_allocator()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from process_memory import peak_bytes, reset_peak  # noqa: E402
from pytorch_common import Windows, make_optimizer  # noqa: E402


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention_in, self.attention_out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp_in, self.mlp_out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        split = (batch, sequence, self.heads, hidden // self.heads)
        query, key, value = (part.view(split).transpose(1, 2)
                             for part in self.attention_in(self.norm1(x)).split(hidden, dim=2))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.norm2(x)), approximate="tanh"))


class LeanGPT2(nn.Module):
    """GPT-2 with a tied head."""

    def __init__(self, vocabulary, positions, hidden, layers, heads, checkpointing):
        super().__init__()
        self.checkpointing = checkpointing
        self.token_embedding, self.position_embedding = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.token_embedding(tokens) + self.position_embedding.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        logits = F.linear(self.norm(x), self.token_embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class HuggingFaceGPT2(nn.Module):
    def __init__(self, vocabulary, positions, hidden, layers, heads, checkpointing):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        config = GPT2Config(vocab_size=vocabulary, n_positions=positions, n_embd=hidden, n_layer=layers, n_head=heads,
                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
        self.model = GPT2LMHeadModel(config)
        if checkpointing:
            self.model.gradient_checkpointing_enable()

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--positions", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--microbatch", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8, help="accumulated per step")
    parser.add_argument("--steps", type=int, default=3, help="measured")
    parser.add_argument("--warmup", type=int, default=1, help="steps before these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--file", help="its bytes are the tokens; random bytes otherwise")
    parser.add_argument("--implementation", choices=["lean", "hf"], default="lean")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpointing", action="store_true", help="recompute blocks in the backward pass")
    parser.add_argument("--plain-allocator", action="store_true")
    return parser.parse_args()


def train_step(model, optimizer, windows, arguments):
    for _ in range(arguments.microbatches):
        tokens, targets = windows.next(arguments.microbatch, "cpu")
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = model(tokens, targets) / arguments.microbatches
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item() * arguments.microbatches


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    kind = LeanGPT2 if arguments.implementation == "lean" else HuggingFaceGPT2
    model = kind(arguments.vocabulary, arguments.positions, arguments.hidden, arguments.layers, arguments.heads,
                 arguments.checkpointing)
    optimizer = make_optimizer(list(model.parameters()))
    forward = torch.compile(model) if arguments.compile else model
    windows = Windows(arguments.file, arguments.sequence)

    seconds, cpu_seconds, losses = [], [], []
    for step in range(arguments.warmup + arguments.steps):
        if step == arguments.warmup:
            reset_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        losses.append(train_step(forward, optimizer, windows, arguments))
        if step >= arguments.warmup:
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
    tokens = arguments.sequence * arguments.microbatch * arguments.microbatches
    print(json.dumps({"tokens_per_second": tokens / statistics.median(seconds), "step_seconds": seconds,
                      "step_cpu_seconds": cpu_seconds, "peak_rss_bytes": peak_bytes(),
                      "peak_rss_bytes_with_warmup": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "parameters": sum(p.numel() for p in model.parameters()), "losses": losses}))


if __name__ == "__main__":
    main()
