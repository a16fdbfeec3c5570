"""One training step of PyTorch, eager, for every line on standard input; its time goes to standard
output as JSON. The counterpart of `cairn-bench step --serve`.

    python3 steps.py NETWORK BATCH SIZE THREADS
"""

import json
import sys
import time

import torch

import networks


def main():
    name, batch, size, threads = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = networks.build(name)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    if name == "gpt2":
        inputs, labels = (torch.randint(0, networks.WORDS, (batch, size)) for _ in range(2))
        labels = labels.flatten()
    else:
        inputs = torch.randn(batch, 3, size, size)
        labels = torch.randint(0, 1000, (batch,))
    print(json.dumps({"ready": name, "version": torch.__version__,
                      "parameters": sum(p.numel() for p in network.parameters())}), flush=True)
    for _ in sys.stdin:
        before, cpu_before = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = criterion(network(inputs), labels)
        loss.backward()
        optimizer.step()
        elapsed, cpu = time.perf_counter() - before, time.process_time() - cpu_before
        print(json.dumps({"step_ms": 1000 * elapsed, "cpu_ms": 1000 * cpu,
                          "loss": str(loss.item())}), flush=True)


if __name__ == "__main__":
    main()
