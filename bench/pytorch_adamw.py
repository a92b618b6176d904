"""torch.optim.AdamW(fused=True) on fp32 parameters and gradients, then the bf16 copy of the parameters that the next
forward pass reads: what strata's adamw does in one pass. Prints one JSON line."""
import argparse
import json
import statistics
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=128 * 1024 * 1024)
    parser.add_argument("--tensors", type=int, default=16, help="tensors that the parameters are split into")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    size = arguments.parameters // arguments.tensors
    masters = [torch.nn.Parameter(torch.randn(size) * 0.02) for _ in range(arguments.tensors)]
    copies = [torch.empty(size, dtype=torch.bfloat16) for _ in masters]
    for master in masters:
        master.grad = torch.randn(size) * 1e-3
    optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.999), weight_decay=0.1, fused=True)

    seconds, cpu_seconds = [], []
    with torch.no_grad():
        for step in range(arguments.steps + 2):
            start, cpu_start = time.perf_counter(), time.process_time()
            optimizer.step()
            for copy, master in zip(copies, masters):
                copy.copy_(master)
            if step >= 2:  # the state is created in the first step
                seconds.append(time.perf_counter() - start)
                cpu_seconds.append(time.process_time() - cpu_start)
    parameters = size * arguments.tensors
    print(json.dumps({"parameters_per_second": parameters / statistics.median(seconds), "step_seconds": seconds,
                      "parameters_per_cpu_second": parameters / statistics.median(cpu_seconds)}))


if __name__ == "__main__":
    main()
