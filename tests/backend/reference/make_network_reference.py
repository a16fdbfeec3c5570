"""Reference values of whole networks: three steps of training with PyTorch in double precision;
writes tests/data/network_reference.json.

    python3 make_network_reference.py [NETWORK...]        (PyTorch 2.13, numpy)

SGD with momentum: v = 0.9 v + g, p = p - rate v. Parameters and data are those of fill.py. The data
starts with step "start"; from there on no activation is so close to the kink of a ReLU that single
and double precision differ. Stored are: the loss of each step; for each parameter checksums of its
gradient in the first and third step; for each batch-norm checksums of its running mean and variance
after it; the loss of the last step's data in evaluation mode. A checksum is the sum of magnitudes
and the sum weighted with fill.py's "checksum", which detects an element in the wrong place; in the
first step also the first and the middle element. Networks that are not named keep their lines.
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F

import fill
import networks
import transformer_networks

DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
STEPS, MOMENTUM = 3, 0.9
MARGIN, STARTS = 3e-6, 200  # least distance from a kink, and how many starts are tried

# name: divisor of widths, batch, input (channels, height, width or features, hidden), classes,
# steps of a recurrent network or tokens, learning rate; transformers are small ones for any divisor
NETWORKS = {
    "alexnet": (8, 4, [3, 64, 64], 5, 0, 0.001),
    "vgg11": (8, 4, [3, 32, 32], 5, 0, 0.001),
    "resnet18": (4, 4, [3, 64, 64], 5, 0, 0.001),
    "resnet50": (8, 4, [3, 64, 56], 5, 0, 0.001),
    "densenet121": (8, 4, [3, 64, 64], 5, 0, 0.001),
    "inception_v3": (16, 4, [3, 107, 107], 5, 0, 0.001),
    "nasnet": (6, 2, [3, 16, 16], 5, 0, 0.001),
    "amoebanet": (6, 2, [3, 16, 16], 5, 0, 0.001),
    "darts": (6, 2, [3, 16, 16], 5, 0, 0.001),
    "unet": (8, 2, [3, 32, 48], 3, 0, 0.01),
    "rnn": (1, 4, [11, 13], 5, 7, 0.05),
    "lstm": (1, 4, [11, 13], 5, 7, 0.05),
    "gpt2": (2, 3, [], 17, 9, 0.01),
    "llama": (2, 3, [], 17, 9, 0.01),
    "bert_base": (2, 3, [], 17, 9, 0.01),
    "vit_b_16": (2, 4, [3, 48, 32], 5, 0, 0.01),
}


def data(name, config, step):
    """The arguments of a network, and the labels."""
    divisor, batch, size, classes, steps, rate = config

    def given(tensor, shape):
        return networks.leaf(fill.inputs(tensor, shape, step), False)

    if not size:
        tokens, labels = (fill.labels(n, [batch, steps], step, classes) for n in ("input", "label"))
        return [torch.tensor(tokens)], torch.tensor(labels)
    shape = [batch] + (size[1:] if name == "unet" else [])
    labels = torch.tensor(fill.labels("label", shape, step, classes))
    if steps == 0:
        return [given("input", [batch] + size)], labels
    state = [batch, size[1]] if name == "rnn" else [2, batch, size[1]]
    xs = [given(f"x.{t}", [batch, size[0]]) for t in range(1, steps + 1)]
    return [given("state.0", state), xs], labels


def run(name, net, inputs, classes, labels):
    """The loss; of tokens, the mean over all of them."""
    of_tokens = hasattr(transformer_networks, name) and labels.dim() == 2
    build = getattr(transformer_networks if hasattr(transformer_networks, name) else networks, name)
    logits = build(net, *inputs, classes)
    return F.cross_entropy(logits.movedim(-1, 1) if of_tokens else logits, labels)


def checksum(t, elements):
    flat = t.detach().flatten()
    weights = networks.leaf(fill.values("checksum", [flat.numel()]), False)
    sums = [flat.abs().sum(), (flat * weights).sum()]
    return [float(v) for v in sums + ([flat[0], flat[flat.numel() // 2]] if elements else [])]


def train(name, config, start):
    divisor, batch, size, classes, steps, rate = config
    net = networks.Layers(divisor)
    result = {"divisor": divisor, "batch": batch, "input": size, "classes": classes, "steps": steps,
              "rate": rate, "start": start, "first": {}, "last": {}}
    velocity, losses = {}, []
    for step in range(STEPS):
        inputs, labels = data(name, config, start + step)
        loss = run(name, net, inputs, classes, labels)
        gradients = torch.autograd.grad(loss, list(net.parameters.values()))
        losses.append(float(loss.detach()))
        for (key, p), g in zip(net.parameters.items(), gradients):
            velocity[key] = g if step == 0 else MOMENTUM * velocity[key] + g
            p.data -= rate * velocity[key]
            if step == 0:
                result["first"][key] = checksum(g, True)
            if step == STEPS - 1:
                result["last"][key] = checksum(g, False)
    result["states"] = {}
    for key, state in net.states.items():  # mean, then variance
        layer = key.rsplit(".", 1)[0]
        result["states"][layer] = result["states"].get(layer, []) + checksum(state, False)
    net.training = False
    with torch.no_grad():
        losses.append(float(run(name, net, inputs, classes, labels)))
    result["losses"] = losses
    return result


def train_clear_of_kinks(name, config):
    networks.relu.margin = MARGIN
    for start in range(STARTS):
        try:
            return train(name, config, start)
        except networks.TooNear:
            pass
    raise SystemExit(f"{name}: every start comes too near to a kink; try another size")


def compact(value, digits=5):
    if isinstance(value, dict):
        items = (f'"{k}":{compact(v, 8 if k == "losses" else digits)}' for k, v in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(compact(v, digits) for v in value) + "]"
    return f"{value:.{digits}g}" if isinstance(value, float) else json.dumps(value)


def main():
    torch.set_num_threads(1)
    chosen = sys.argv[1:] or NETWORKS
    file = DATA / "network_reference.json"
    lines = {line.split('"')[1]: line.rstrip(",") for line in file.read_text().splitlines()[1:-1]}
    for name in chosen:
        result = train_clear_of_kinks(name, NETWORKS[name])
        print(name, "start", result["start"], result["losses"], len(result["first"]), "parameters", file=sys.stderr)
        # first and last checksums side by side under the parameter's name
        first, last = result.pop("first"), result.pop("last")
        result["parameters"] = {key: first[key] + last[key] for key in first}
        lines[name] = f'"{name}":{compact(result)}'
    file.write_text("{\n" + ",\n".join(lines.values()) + "\n}\n")


if __name__ == "__main__":
    main()
