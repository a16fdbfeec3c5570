"""The errors of Cairn; each has a message of one sentence. torch.compile passes them on unchanged."""

from . import _torch



class CairnError(_torch.ShortenTraceback):
    """A step that cannot be planned."""

    def __init__(self, message: str) -> None:
        super().__init__(message, first_useful_frame=None)


class BudgetError(CairnError):
    """No plan fits. `smallest` is the smallest possible budget in bytes, `op` the op that sets it."""

    def __init__(self, message: str, smallest: int, op: str | None) -> None:
        super().__init__(message)
        self.smallest, self.op = smallest, op

    def copy(self) -> "BudgetError":
        """The same error, without the frames in which it was raised, which refer to tensors."""
        return BudgetError(str(self), self.smallest, self.op)
