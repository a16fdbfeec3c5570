"""Reference values of the optimisers and schedules, by PyTorch 2.13: writes
tests/data/optimizer_reference.json. Gradients do not depend on the parameters, so that an error of
one step is not hidden by the next."""

import json
import math
import pathlib

import torch

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
STEPS, ELEMENTS = 8, 6

CASES = [
    ("sgd", {"momentum": 0.0}),
    ("sgd", {"momentum": 0.0, "weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("adam", {}),
    ("adam", {"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}),
    ("adamw", {"weight_decay": 0.1}),
]


def gradient(step):
    return [math.sin(1.0 + 3 * step + i) * 10.0 ** (i - 3) for i in range(ELEMENTS)]


def rate(step):
    return 0.1 / (1 + step)


def optimizer(name, options, parameter):
    options = dict(options)
    if name != "sgd":
        betas = options.pop("beta1", 0.9), options.pop("beta2", 0.999)
        options = {"betas": betas, "eps": options.pop("epsilon", 1e-8), **options}
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if name == "adamw":
        options.setdefault("weight_decay", 0.0)
    return kinds[name]([parameter], lr=0.1, foreach=False, **options)


def run(name, options):
    start = [0.5 - 0.2 * i for i in range(ELEMENTS)]
    parameter = torch.tensor(start, requires_grad=True)
    optimiser = optimizer(name, options, parameter)
    values = []
    for step in range(STEPS):
        parameter.grad = torch.tensor(gradient(step))
        optimiser.param_groups[0]["lr"] = rate(step)
        optimiser.step()
        values.append([float(f"{v:.9g}") for v in parameter.detach().tolist()])
    return {"optimizer": name, **options, "start": start, "values": values}


def schedule(kind, make):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = make(optimiser)
    rates = []
    for _ in range(13):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return {"schedule": kind, "rates": rates}


def main():
    lr = torch.optim.lr_scheduler
    result = {
        "gradients": [gradient(s) for s in range(STEPS)],
        "rates": [rate(s) for s in range(STEPS)],
        "optimizers": [run(name, options) for name, options in CASES],
        "schedules": [
            schedule("step", lambda o: lr.StepLR(o, step_size=4, gamma=0.25)),
            schedule("cosine", lambda o: lr.CosineAnnealingLR(o, T_max=12, eta_min=0.04)),
        ],
    }
    text = json.dumps(result, indent=0)
    (DATA / "optimizer_reference.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
