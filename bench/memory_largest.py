"""The largest model of each budget, for bench/memory.py: found with `strata plan` alone, which is exact, by bisection.

Models are Llamas with 64 columns per head, twice as many layers as heads, and a vocabulary of 256: first the largest width, then the
largest depth at this width. 4 sequences of 512 tokens, a microbatch each, bf16.
"""

from memory_design import llama
from memory_runs import Refused, plan

MIB = 2**20
SMALL_STATE = {"master": "split", "moments": "bf16"}

# Recomputation, memory besides a device of a given number of bytes, and keys of the optimizer.
WAYS = {
    "device": ("none", lambda budget: {}, {}),
    "device, recompute": ("full", lambda budget: {}, {}),
    "device, recompute, small state": ("full", lambda budget: {}, SMALL_STATE),
    "device and host of 16 times that": ("auto", lambda budget: {"host": 16 * budget}, {}),
    "device and host, small state": ("auto", lambda budget: {"host": 16 * budget}, SMALL_STATE),
    "device, host and a drive of 64 times that": ("auto", lambda budget: {"host": 16 * budget, "nvme": {"path": "/tmp", "size": 64 * budget}}, {}),
}


def planned(strata, way, budget, heads, layers):
    """The plan of this model, or nothing if it does not fit."""
    recompute, others, optimizer = WAYS[way]
    architecture, config = llama(64 * heads, layers, heads, heads, 64 * -(-8 * heads // 3))
    try:
        return plan(strata, {
            "model": {"architecture": architecture, "config": config},
            "data": {"path": "/usr/share/common-licenses/*", "tokenizer": "bytes", "sequence_length": 512},
            "train": {"batch": 4, "microbatch": 1, "precision": "bf16", "recompute": recompute},
            "optimizer": optimizer,
            "memory": {"device": budget} | others(budget),
        })
    except Refused:
        return None


def largest(fits, least):
    """The largest count from `least` on that fits, where `least` does."""
    low, high = least, 2 * least
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def measure(table, strata, quick):
    for budget in (64 * MIB, 256 * MIB) if quick else (64 * MIB, 256 * MIB, 1024 * MIB):
        for way in WAYS:
            if table.has(device_bytes=budget, way=way):
                continue
            if not planned(strata, way, budget, 1, 2):
                continue
            heads = largest(lambda heads: planned(strata, way, budget, heads, 2 * heads), 1)
            layers = largest(lambda layers: planned(strata, way, budget, heads, layers), 2 * heads)
            report = planned(strata, way, budget, heads, layers)
            peaks = {f"planned_{tier}_bytes": figures["planned_peak_bytes"] for tier, figures in report["memory"].items()}
            table.add({"device_bytes": budget, "way": way, "hidden": 64 * heads, "layers": layers, "parameters": report["parameters"],
                       "parameters_per_device_byte": round(report["parameters"] / budget, 4)} | peaks)
