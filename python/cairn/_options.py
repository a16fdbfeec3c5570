"""The options of a backend. cairn.backend explains them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ._plan import Plan

Size = int | str  # bytes, "4GiB" or "40%"
File = str | os.PathLike[str]
Mode = Literal["exact", "inductor"]
MODES = ("exact", "inductor")


@dataclass
class Options:
    budget: Size | None = None
    mode: Mode = "exact"
    algorithm: str = "auto"
    offload: bool = False
    total: bool = False
    outside: int = 0
    report: File | None = None
    plan: Plan | File | None = None
    costs: File | None = None
    cudagraphs: bool = False
    check: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}; it must be 'exact' or 'inductor'")
        if self.mode == "inductor" and (self.offload or self.cudagraphs or self.check):
            raise ValueError("offload, cudagraphs and check belong to mode 'exact'")


def from_call(values: Mapping[str, Any]) -> Options:
    """The options among the arguments of a function, from its locals(): every option has one name everywhere."""
    return Options(**{name: values[name] for name in Options.__dataclass_fields__ if name in values})
