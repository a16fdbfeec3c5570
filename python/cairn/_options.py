"""The options of a backend. cairn.backend explains them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _sizes

if TYPE_CHECKING:
    from ._plan import Plan

Size = int | str  # bytes, "4GiB" or "40%"
File = str | os.PathLike[str]
Mode = Literal["exact", "compiled"]
MODES = ("exact", "compiled")


@dataclass
class Options:
    budget: Size | None = None
    mode: Mode = "exact"
    algorithm: str = "auto"
    offload: bool = False
    total: bool = False
    outside: int = 0
    loss_only: bool = False
    report: File | None = None
    plan: Plan | File | None = None
    costs: File | None = None
    cudagraphs: bool = False
    arena: bool = False
    chunks: int | None = None
    check: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None:
            _sizes.parse(self.budget, 1 << 40)  # an error in it is better found now than at the first step
        if self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}; it must be 'exact' or 'compiled'")
        compiled = self.mode == "compiled"
        if self.arena and self.check:
            raise ValueError("a step with an arena cannot be checked op by op")
        if self.chunks not in (None, 1) and not compiled:
            raise ValueError("chunks belong to mode 'compiled', because they round differently than eager execution")


def from_call(values: Mapping[str, Any]) -> Options:
    """The options among the arguments of a function, from its locals(): every option has one name everywhere."""
    return Options(**{name: values[name] for name in Options.__dataclass_fields__ if name in values})
