"""Writes direction_goldens.json beside this script: weights and factors of tensors after some steps of rules that need whole tensors.

    .venv/bin/python tests/device/make_direction_goldens.py          # .venv/ is of tests/parity/setup.sh

Adafactor is that of transformers, NorMuon that of PyPI's pytorch-optimizer. Row-wise Adagrad is here as FBGEMM defines it, with decoupled
weight decay. Muon has goldens of its own. Numbers of fp32 are their bits. Weights begin far from zero and stay there, so that relative errors
say something. NorMuon's products are bf16's, so a weight may differ in a last place of a direction, times the learning rate.
"""
import json
import pathlib

import pytorch_optimizer
import torch
from transformers.optimization import Adafactor

STEPS, SHOWN = 50, (1, 2, 50)
WEIGHT_DECAY = 0.1


class RowwiseAdagrad(torch.optim.Optimizer):
    """One sum of squares for each row; a vector's elements are rows."""

    def __init__(self, parameters, lr, eps, weight_decay):
        super().__init__(parameters, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                rows = parameter.grad.reshape(parameter.shape[0], -1)
                total = self.state[parameter].setdefault("sum", torch.zeros(parameter.shape[0]))
                total.add_(rows.pow(2).mean(dim=1))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_((group["lr"] * rows / (total.sqrt() + group["eps"])[:, None]).reshape(parameter.shape))


def adafactor(parameter, rate, settings):
    return Adafactor([parameter], lr=rate, eps=(settings["epsilon"], 1e-3), clip_threshold=settings["clip_threshold"],
                     decay_rate=settings["decay_rate"], weight_decay=WEIGHT_DECAY, scale_parameter=False, relative_step=False)


def normuon(parameter, rate, settings):
    return pytorch_optimizer.NorMuon([{"params": [parameter], "use_muon": True}], lr=rate, momentum=settings["momentum"],
                                     beta2=settings["beta2"], eps=settings["epsilon"], weight_decay=WEIGHT_DECAY, update_scale="match_rms")


def adagrad_rowwise(parameter, rate, settings):
    return RowwiseAdagrad([parameter], rate, settings["epsilon"], WEIGHT_DECAY)


# The rule, its optimizer, its learning rate, a tensor's shape, and settings by our names. NorMuon's scale is that of update_scale.
ADAFACTOR = {"epsilon": 1e-30, "decay_rate": -0.8, "clip_threshold": 1.0}
NORMUON = {"momentum": 0.95, "beta2": 0.9, "epsilon": 1e-10, "scale": 0.2}
TENSORS = (
    ("adafactor", adafactor, 0.01, (4, 6), ADAFACTOR),
    ("adafactor", adafactor, 0.01, (7, 3), ADAFACTOR | {"clip_threshold": 0.5, "decay_rate": -0.5}),
    ("adafactor", adafactor, 0.01, (1, 5), ADAFACTOR),
    ("adafactor", adafactor, 0.01, (9,), ADAFACTOR | {"clip_threshold": 0.8}),
    ("normuon", normuon, 0.01, (4, 6), NORMUON),
    ("normuon", normuon, 0.01, (7, 3), NORMUON),
    ("adagrad_rowwise", adagrad_rowwise, 0.05, (5, 4), {"epsilon": 1e-10}),
    ("adagrad_rowwise", adagrad_rowwise, 0.05, (6,), {"epsilon": 1e-10}),
)
FACTORS = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "second_momentum_buffer", "sum")


def bits(values):
    return values.detach().contiguous().view(torch.int32).flatten().tolist()


def made_by(rule, make, rate, shape, settings, generator):
    # From large gradients to small ones, in both directions of a matrix.
    spread = torch.logspace(0, -3, shape[-1])
    if len(shape) > 1:
        spread = spread * torch.logspace(-2, 1, shape[0])[:, None]
    gradients = [torch.randn(shape, generator=generator) * spread * (1 + step % 3) for step in range(STEPS)]
    parameter = torch.nn.Parameter(2 + torch.rand(shape, generator=generator))
    weights = bits(parameter)
    optimizer = make(parameter, rate, settings)
    shown = []
    for step, gradient in enumerate(gradients, 1):
        parameter.grad = gradient.clone()
        optimizer.step()
        if step in SHOWN:
            state = optimizer.state[parameter]
            factors = torch.cat([state[name].flatten() for name in FACTORS if state.get(name) is not None])
            shown.append({"step": step, "weights": bits(parameter), "factors": bits(factors)})
    assert parameter.min() > 0.5, f"{rule} moves weights too near to zero"
    return {"rule": rule, "shape": shape, "learning_rate": rate, "weight_decay": WEIGHT_DECAY, "settings": settings, "weights": weights,
            "gradients": [bits(gradient) for gradient in gradients], "shown": shown}


def main():
    generator = torch.Generator().manual_seed(5)
    tensors = [made_by(*tensor, generator) for tensor in TENSORS]
    text = '{"tensors": [' + ",\n".join(json.dumps(tensor) for tensor in tensors) + "]}\n"
    (pathlib.Path(__file__).parent / "direction_goldens.json").write_text(text)


if __name__ == "__main__":
    main()
