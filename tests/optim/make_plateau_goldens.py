"""Writes plateau_goldens.json beside this script: learning rates of torch.optim's ReduceLROnPlateau for held-out losses that fall, rise and stay.

    .venv/bin/python tests/optim/make_plateau_goldens.py          # .venv/ is of tests/parity/setup.sh

A loss that is not a number is null. Each case has the rate behind each validation, with a rate of 1 before the first.
"""
import json
import math
import pathlib
import random

import torch

CASES = ({"factor": 0.5, "patience": 2, "threshold": 1e-4, "cooldown": 0, "minimum": 0.0},
         {"factor": 0.1, "patience": 0, "threshold": 0.05, "cooldown": 3, "minimum": 0.0},
         {"factor": 0.7, "patience": 4, "threshold": 0.0, "cooldown": 1, "minimum": 0.3})
VALIDATIONS = 60


def losses(seed):
    """Falls by ever less, with noise; some in the middle are not a number, and the first of one case is none."""
    draw = random.Random(seed)
    values = [2 + 2 / (1 + 0.3 * v) + 0.05 * draw.random() for v in range(VALIDATIONS)]
    values[20] = math.nan
    values[30] = math.inf
    if seed == 1:
        values[0] = math.nan
    values[40:44] = [values[39]] * 4
    return [round(value, 6) for value in values]


def rates(case, values):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=case["factor"], patience=case["patience"],
                                                           threshold=case["threshold"], cooldown=case["cooldown"],
                                                           min_lr=case["minimum"], eps=0)
    found = []
    for value in values:
        scheduler.step(value)
        found.append(optimizer.param_groups[0]["lr"])
    return found


def main():
    goldens = []
    for seed, case in enumerate(CASES):
        values = losses(seed)
        goldens.append({**case, "losses": [value if math.isfinite(value) else None for value in values], "rates": rates(case, values)})
    path = pathlib.Path(__file__).with_name("plateau_goldens.json")
    path.write_text(json.dumps(goldens, indent=1).replace("\n   ", " ").replace("\n  ]", " ]") + "\n")


if __name__ == "__main__":
    main()
