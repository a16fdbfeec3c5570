"""What is refused, each in one sentence. Raised from inside torch.compile they arrive as they are."""

from torch._dynamo.exc import ShortenTraceback


class CairnError(ShortenTraceback):
    """A step that cannot be planned."""

    def __init__(self, message):
        super().__init__(message, first_useful_frame=None)


class BudgetError(CairnError):
    """No plan fits. `smallest` is the smallest budget in bytes that would do, `op` what sets it."""

    def __init__(self, message, smallest, op):
        super().__init__(message)
        self.smallest, self.op = smallest, op
