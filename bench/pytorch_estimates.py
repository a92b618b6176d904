"""Prints as one JSON line what DeepSpeed and accelerate say that training a model of transformers takes, each by its own function: what
bench/memory.py puts beside Strata's plan and what was measured.

    .venv/bin/python bench/pytorch_estimates.py --architecture gpt2 --config '{"n_layer": 4}'

DeepSpeed's estimators give bytes per GPU and per node for parameters, gradients and optimizer state, not for activations.
`accelerate estimate-memory` loads a config from the hub; the functions under it, called here, take a model. It prints the largest of
model, gradients, optimizer and step, for a batch of 1. Needs deepspeed (installed with DS_BUILD_OPS=0) and accelerate.
"""
import argparse
import contextlib
import json
import os
import sys

from pytorch_common import make_model

os.environ.setdefault("DS_ACCELERATOR", "cpu")


def deepspeed_estimates(model):
    """{estimator: {"device": bytes, "host": bytes}}, device per rank, host of the node."""
    from deepspeed.runtime.zero import stage3, stage_1_and_2
    total, largest = stage3.model_to_params(model)
    estimates = {}
    for ranks in (1, 2):
        for where, options in {"": {"cpu_offload": False, "cpu_offload_params": False},
                               " offload": {"cpu_offload": True, "cpu_offload_params": True}}.items():
            host, device, _ = stage3.estimate_zero3_model_states_mem_needs(total, largest, num_gpus_per_node=ranks, zero_init=True, **options)
            estimates[f"zero3{where} x{ranks}"] = {"device": device, "host": host}
            host, device = stage_1_and_2.estimate_zero2_model_states_mem_needs(total, num_gpus_per_node=ranks,
                                                                               cpu_offload=options["cpu_offload"])
            estimates[f"zero2{where} x{ranks}"] = {"device": device, "host": host}
    return estimates


def accelerate_estimates(model):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes
    size, _ = calculate_maximum_sizes(model)
    return {precision: max(estimate_training_usage(size, name).values()) for precision, name in (("fp32", "float32"), ("bf16", "bfloat16"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=["gpt2", "llama"], required=True)
    parser.add_argument("--config", required=True)
    arguments = parser.parse_args()
    model = make_model(arguments.architecture, json.loads(arguments.config))
    with contextlib.redirect_stdout(sys.stderr):
        estimates = {"deepspeed": deepspeed_estimates(model), "accelerate": accelerate_estimates(model)}
    print(json.dumps(estimates | {"parameters": sum(parameter.numel() for parameter in model.parameters())}))


if __name__ == "__main__":
    main()
