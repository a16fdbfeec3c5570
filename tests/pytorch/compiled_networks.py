"""The networks of the tests of mode "compiled", captured and trained once, and how much memory plans of them may use."""

import contextlib
import functools
import os
import tempfile
import unittest.mock

import torch

import cairn
from cairn import _backend, _compiled, _costs
from common import with_cairn
from small_models import GPT, Basic, Llama, ResNet

MODE = dict(mode="compiled")
WORDS, LAYERS = 1024, 2  # of GPT
STEPS = 2  # of training


def words(count=128):
    """Words and labels, of which some are not to be counted."""
    labels = torch.randint(0, count, (4, 32))
    labels[0, :5] = -100
    return torch.randint(0, count, (4, 32)), labels


def make(name):
    torch.manual_seed(0)
    if name == "gpt":  # tied weights and dropout
        return GPT(WORDS, 32, 32, LAYERS, 2, 0.1), words(WORDS)
    if name == "resnet":  # batch norms, whose running statistics change
        return ResNet(Basic, (1, 1), width=8), (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))
    return Llama(128, 32, 1, 2, 32), words()  # under autocast


def planner_of(model, inputs, **options):
    return _backend.planner_of(model, inputs, _backend.Options(**MODE, **options))


@functools.cache
def prepared(name):
    """A network with its inputs, its planner, and what training it without a budget gives. Most of the time of these tests
    is spent in compilers, so they share what they can."""
    model, inputs = make(name)
    return model, inputs, planner_of(model, inputs), with_cairn(model, inputs, cairn.backend(**MODE), steps=STEPS)


@contextlib.contextmanager
def unmeasured():
    """Steps are captured without compiling and measuring their kernels."""
    def guess(missing, table, *_):
        for signature, node in missing.items():
            table.guess(signature, _costs.estimate(node), "not tried")
    with unittest.mock.patch.object(_costs, "_measure_cpu", guess), \
            unittest.mock.patch.object(_costs, "_measure_cuda", guess), \
            unittest.mock.patch.object(_compiled, "compile_all", lambda kernels, device: None), \
            unittest.mock.patch.object(_compiled, "tried_over", lambda kernel, place: False), \
            unittest.mock.patch.dict(_costs._trials, clear=True), \
            unittest.mock.patch.object(_costs, "default_file", lambda device: None):
        yield


@contextlib.contextmanager
def fixed_times():
    """Times on a processor are those of the bytes that are read and made, so that groups, forms and memory are the same in
    every run: Inductor's forms, merged where the rules merge. Workspaces are measured."""
    measure = _costs._measure_cpu

    def fixed(missing, table):
        measure(missing, table)
        for signature, node in missing.items():
            if signature not in table.guesses:
                table.set(signature, _costs.estimate(node), *table.figures[signature][1:])
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, CAIRN_CACHE=folder), \
            unittest.mock.patch.dict(_compiled._kernels, clear=True), \
            unittest.mock.patch.object(_costs, "_measure_cpu", fixed):
        yield


def budgets(planner, count):
    """From what the plain step needs down to the smallest."""
    most, least = planner.none().peak, planner.smallest()[0]
    return [most - (most - least) * i // (count - 1) for i in range(count)]
