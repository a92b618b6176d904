"""Writes muon_goldens.json beside this script: weights and momentum of matrices after some steps of torch.optim.Muon.

    .venv/bin/python tests/device/make_muon_goldens.py          # .venv/ is of tests/parity/setup.sh

Numbers of fp32 are their bits. Products are bf16's, so a weight may differ in a last place of a direction, times the learning rate.
"""
import json
import math
import pathlib

import torch

STEPS, SHOWN = 50, (1, 2, 50)
SCALINGS = {"original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
            "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
            "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns)}


def bits(values):
    return values.detach().contiguous().view(torch.int32).flatten().tolist()


def made_by_torch(rows, columns, scaling, generator):
    rate, momentum, decay = 0.002, 0.95, 0.1
    # Gradients with large and small singular values.
    spread = torch.logspace(0, -2, columns)
    gradients = [torch.randn(rows, columns, generator=generator) * spread for _ in range(STEPS)]
    parameter = torch.nn.Parameter(0.5 + torch.rand(rows, columns, generator=generator))
    weights = bits(parameter)
    optimizer = torch.optim.Muon([parameter], lr=rate, weight_decay=decay, momentum=momentum, adjust_lr_fn=scaling)
    shown = []
    for step, gradient in enumerate(gradients, 1):
        parameter.grad = gradient.clone()
        optimizer.step()
        if step in SHOWN:
            shown.append({"step": step, "weights": bits(parameter), "momentum_buffer": bits(optimizer.state[parameter]["momentum_buffer"])})
    return {"rows": rows, "columns": columns, "learning_rate": rate, "momentum": momentum, "weight_decay": decay,
            "scaling": scaling, "scale": SCALINGS[scaling](rows, columns), "weights": weights,
            "gradients": [bits(gradient) for gradient in gradients], "shown": shown}


def main():
    generator = torch.Generator().manual_seed(5)
    shapes = ((4, 6, "original"), (7, 3, "match_rms_adamw"), (5, 5, "spectral_unclamped"))
    matrices = [made_by_torch(*shape, generator) for shape in shapes]
    text = '{"matrices": [' + ",\n".join(json.dumps(matrix) for matrix in matrices) + "]}\n"
    (pathlib.Path(__file__).parent / "muon_goldens.json").write_text(text)


if __name__ == "__main__":
    main()
