"""Runs programs of PyTorch for benchmarks, as one process or several ranks. Needs nothing but Python's standard library."""

import os
import pathlib
import subprocess
import sys


def run(python, words, ranks=0, environment=None):
    """What a program prints that must succeed. With ranks, torch.distributed.run starts that many processes, which share the cores."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 0 else []
    threads = max(1, os.cpu_count() // max(1, ranks))
    settings = {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent),
                "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}"}  # DeepSpeed compiles with ninja
    process = subprocess.run([python, *launcher, *words], capture_output=True, text=True, env=os.environ | settings | (environment or {}))
    if process.returncode != 0:
        sys.exit(f"{process.stderr[-5000:]}\n{words}")
    return process.stdout
