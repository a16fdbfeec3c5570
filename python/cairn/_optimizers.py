"""Steps of optimisers, for those who listen in the same thread. PyTorch's hooks cannot be removed while they run, so one
pair of hooks stays and calls whoever listens at the moment. Who listens is not kept alive by that."""

import threading
import weakref

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

_before: list = []
_after: list = []
_hooks: list = []


def _tell(listeners):
    for listener, thread in list(listeners):
        call = listener()
        if call is None:
            listeners.remove((listener, thread))
        elif thread == threading.get_ident():
            call()


def _listen(listeners, method):
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(lambda *_: _tell(_before)))
        _hooks.append(register_optimizer_step_post_hook(lambda *_: _tell(_after)))
    entry = weakref.WeakMethod(method), threading.get_ident()
    if entry not in listeners:
        listeners.append(entry)


def before_step(method):
    """Call a method before every step of an optimiser in this thread, until it is forgotten."""
    _listen(_before, method)


def after_step(method):
    _listen(_after, method)


def forget(method):
    for listeners in (_before, _after):
        listeners[:] = [entry for entry in listeners if entry[0]() != method]
