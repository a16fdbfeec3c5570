"""Steps of optimisers, for those who listen in the same thread. PyTorch's hooks cannot be removed while they run, so one
pair of hooks stays and calls whoever listens at the moment."""

import threading

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

_before: list = []
_after: list = []
_hooks: list = []


def _tell(listeners):
    for listener, thread in list(listeners):
        if thread == threading.get_ident():
            listener()


def _listen(listeners, listener):
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(lambda *_: _tell(_before)))
        _hooks.append(register_optimizer_step_post_hook(lambda *_: _tell(_after)))
    if (listener, threading.get_ident()) not in listeners:
        listeners.append((listener, threading.get_ident()))


def before_step(listener):
    """Call a function before every step of an optimiser in this thread, until it is forgotten."""
    _listen(_before, listener)


def after_step(listener):
    _listen(_after, listener)


def forget(listener):
    for listeners in (_before, _after):
        listeners[:] = [entry for entry in listeners if entry[0] != listener]
