"""Steps of optimisers, for those who listen. PyTorch's hooks cannot be removed while they run, so one pair of hooks stays
and calls whoever listens at the moment."""

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

_before: list = []
_after: list = []
_hooks: list = []


def _tell(listeners):
    for listener in list(listeners):
        listener()


def _listen(listeners, listener):
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(lambda *_: _tell(_before)))
        _hooks.append(register_optimizer_step_post_hook(lambda *_: _tell(_after)))
    if listener not in listeners:
        listeners.append(listener)


def before_step(listener):
    """Call a function before every step of an optimiser, until it is forgotten."""
    _listen(_before, listener)


def after_step(listener):
    _listen(_after, listener)


def forget(listener):
    for listeners in (_before, _after):
        if listener in listeners:
            listeners.remove(listener)
