"""Trains several GPT-2s with PyTorch on the CPU, one after the other in one process or each in a process of its own at once: what
bench/models.py measures `strata train` of several models against. transformers' GPT-2, fp32, SGD, gradient accumulation.
Prints one JSON line.

    /tmp/venv/bin/python bench/pytorch_models.py --rates 3e-4 1e-4 --batches 16 8 [--processes]

Seconds are those of training alone: imports and weights are there before, and each process takes a step before that does not count.
"""
import argparse
import itertools
import json
import multiprocessing
import os
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", nargs="+", type=float, required=True)
    parser.add_argument("--batches", nargs="+", type=int, required=True)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--microbatch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--processes", action="store_true", help="all models at once, each in its own process")
    parser.add_argument("--file", default="/usr/share/common-licenses/GPL-3", help="its bytes are the tokens")
    return parser.parse_args()


def train(arguments, models, threads, begin):
    """These models one after the other; `begin` is called when they are there."""
    import torch
    from pytorch_common import Windows
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    windows = Windows(arguments.file, arguments.sequence)
    config = GPT2Config(vocab_size=256, n_positions=arguments.sequence, n_embd=arguments.hidden, n_layer=arguments.layers,
                        n_head=arguments.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)

    def step(model, optimizer, batch):
        parts = batch // arguments.microbatch
        for _ in range(parts):
            tokens, targets = windows.next(arguments.microbatch, "cpu")
            logits = model(input_ids=tokens).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) / parts
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    trained = []
    for rate, batch in models:
        model = GPT2LMHeadModel(config)
        trained.append((model, torch.optim.SGD(model.parameters(), lr=rate), batch))
    step(GPT2LMHeadModel(config), trained[0][1], models[0][1])
    begin()
    for model, optimizer, batch in trained:
        for _ in range(arguments.steps):
            step(model, optimizer, batch)


def train_one(arguments, model, threads, barrier, ends, number):
    train(arguments, [model], threads, barrier.wait)
    ends[number] = time.perf_counter()  # one clock for all processes


def seconds_of_processes(arguments, models):
    threads = max(1, os.cpu_count() // len(models))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(models) + 1)
    ends = context.Array("d", len(models))
    processes = [context.Process(target=train_one, args=(arguments, model, threads, barrier, ends, number))
                 for number, model in enumerate(models)]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    for process in processes:
        process.join()
    if any(process.exitcode != 0 for process in processes):
        raise SystemExit("a process has failed")
    return max(ends) - start


def main():
    arguments = parse_arguments()
    models = list(itertools.product(arguments.rates, arguments.batches))
    if arguments.processes:
        seconds = seconds_of_processes(arguments, models)
    else:
        start = 0.0

        def begin():
            nonlocal start
            start = time.perf_counter()

        train(arguments, models, os.cpu_count(), begin)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "models": len(models)}))


if __name__ == "__main__":
    main()
