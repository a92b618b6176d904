"""Writes rule_goldens.json beside this script: weights and moments after some steps of every update rule, and averages of AdamW's weights.

    .venv/bin/python tests/optim/make_rule_goldens.py          # .venv/ is of tests/parity/setup.sh

torch.optim makes them in fp32 on a CPU. It has no Lion, which is here as Chen et al. 2023 define it, and no AdEMAMix, which is that of
PyPI's pytorch-optimizer.
Numbers of fp32 are their bits. Weights begin far from zero and stay there, so that relative errors say something.
"""
import json
import pathlib

import pytorch_optimizer
import torch
from torch.optim import swa_utils

ELEMENTS, STEPS, SHOWN = 24, 50, (1, 2, 50)
WEIGHT_DECAY = 0.1


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of "Symbolic Discovery of Optimization Algorithms", with decoupled weight decay."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in group["params"]:
                state = self.state[parameter]
                exp_avg = state.setdefault("exp_avg", torch.zeros_like(parameter))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                direction = exp_avg.mul(beta1).add(parameter.grad, alpha=1 - beta1)
                parameter.add_(direction.sign(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)


# The rule, its optimizer, its learning rate, and its settings by our names.
RULES = (
    ("adamw", lambda p, lr, s: torch.optim.AdamW(p, lr=lr, betas=(s["beta1"], s["beta2"]), eps=s["epsilon"], weight_decay=WEIGHT_DECAY),
     0.01, {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8}),
    ("sgd", lambda p, lr, s: torch.optim.SGD(p, lr=lr, weight_decay=WEIGHT_DECAY), 0.01, {}),
    ("sgd_momentum", lambda p, lr, s: torch.optim.SGD(p, lr=lr, momentum=s["momentum"], weight_decay=WEIGHT_DECAY), 0.002, {"momentum": 0.9}),
    ("lion", lambda p, lr, s: Lion(p, lr=lr, betas=(s["beta1"], s["beta2"]), weight_decay=WEIGHT_DECAY), 0.01, {"beta1": 0.9, "beta2": 0.99}),
    ("rmsprop", lambda p, lr, s: torch.optim.RMSprop(p, lr=lr, alpha=s["alpha"], eps=s["epsilon"], weight_decay=WEIGHT_DECAY),
     0.005, {"alpha": 0.99, "epsilon": 1e-8}),
    ("rmsprop_momentum", lambda p, lr, s: torch.optim.RMSprop(p, lr=lr, alpha=s["alpha"], eps=s["epsilon"], momentum=s["momentum"],
                                                              weight_decay=WEIGHT_DECAY),
     0.001, {"alpha": 0.95, "epsilon": 1e-8, "momentum": 0.8}),
    ("adagrad", lambda p, lr, s: torch.optim.Adagrad(p, lr=lr, eps=s["epsilon"], weight_decay=WEIGHT_DECAY), 0.05, {"epsilon": 1e-10}),
    ("ademamix", lambda p, lr, s: pytorch_optimizer.AdEMAMix(p, lr=lr, betas=(s["beta1"], s["beta2"], s["beta3"]), eps=s["epsilon"],
                                                             alpha=s["alpha"], t_alpha_beta3=s["slow_warmup"], weight_decouple=True,
                                                             weight_decay=WEIGHT_DECAY),
     0.003, {"beta1": 0.9, "beta2": 0.999, "beta3": 0.9999, "epsilon": 1e-8, "alpha": 5.0, "slow_warmup": 40}),
)
MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum", "exp_avg_slow")


def bits(values):
    return values.detach().contiguous().view(torch.int32).tolist()


def made_by(make, rate, settings, weights, gradients):
    """What the rule has left after each of the steps that are shown."""
    parameter = torch.nn.Parameter(weights.clone())
    optimizer = make([parameter], rate, settings)
    shown = []
    for step, gradient in enumerate(gradients, 1):
        parameter.grad = gradient.clone()
        optimizer.step()
        if step in SHOWN:
            state = optimizer.state[parameter]
            moments = {name: bits(state[name]) for name in MOMENTS if state.get(name) is not None}
            shown.append({"step": step, "weights": bits(parameter), "moments": moments})
    return shown


def averaged(decay, weights, gradients):
    """What torch.optim.swa_utils makes of the weights of an AdamW run after each of the steps that are shown."""
    model = torch.nn.Linear(ELEMENTS, 1, bias=False)
    model.weight.data = weights.clone()[None]
    averages = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(decay))
    optimizer = RULES[0][1](model.parameters(), RULES[0][2], RULES[0][3])
    shown = []
    for step, gradient in enumerate(gradients, 1):
        model.weight.grad = gradient.clone()[None]
        optimizer.step()
        averages.update_parameters(model)
        if step in SHOWN:
            shown.append({"step": step, "weights": bits(averages.module.weight[0])})
    return shown


def main():
    generator = torch.Generator().manual_seed(11)
    sign = torch.where(torch.arange(ELEMENTS) % 2 == 0, 1.0, -1.0)
    weights = sign * (2 + 2 * torch.rand(ELEMENTS, generator=generator))
    # From large gradients to small ones, with a mean, and some that are zero.
    scale = torch.logspace(0.5, -4, ELEMENTS)
    gradients = scale * (0.3 + torch.randn(STEPS, ELEMENTS, generator=generator))
    gradients[:, ::7] *= (torch.arange(STEPS) % 3 != 0).float()[:, None]
    rules = [{"rule": rule, "learning_rate": rate, "weight_decay": WEIGHT_DECAY, "settings": settings,
              "shown": made_by(make, rate, settings, weights, gradients)} for rule, make, rate, settings in RULES]
    for rule in rules:
        left = torch.tensor(rule["shown"][-1]["weights"], dtype=torch.int32).view(torch.float32)
        assert (left * sign > 0.5).all(), f"{rule['rule']} moves weights too near to zero: {left.tolist()}"
    decay = 0.9
    ema = {"decay": decay, "shown": averaged(decay, weights, gradients)}
    lines = ",\n".join(json.dumps(rule) for rule in rules)
    text = f'{{"weights": {bits(weights)},\n"gradients": {[bits(gradient) for gradient in gradients]},\n"rules": [{lines}],\n"ema": {json.dumps(ema)}}}\n'
    (pathlib.Path(__file__).parent / "rule_goldens.json").write_text(text)


if __name__ == "__main__":
    main()
