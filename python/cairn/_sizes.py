"""Sizes as people write them."""

import re

_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse(size: int | float | str, whole: int | None = None) -> int:
    """The bytes of a size such as 4294967296, "4GiB", "4G" or "500MB"; or of "40%" of `whole`."""
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        if size < 1 or size != int(size):
            raise ValueError(f"{size!r} is not a number of bytes; a share is written as '40%'")
        return int(size)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*|%)\s*", str(size))
    if match is None:
        raise ValueError(f"{size!r} is not a size such as 4GiB, 500MB or 40%")
    number, unit = float(match.group(1)), match.group(2)
    if unit == "%":
        if whole is None:
            raise ValueError(f"{size!r} is a share, and here there is no whole to take it of")
        return int(whole * number / 100)
    if unit.upper() not in _UNITS:
        raise ValueError(f"{size!r} has an unknown unit")
    return int(number * _UNITS[unit.upper()])


def is_share(budget: object) -> bool:
    """Whether a budget is a share of what a step needs."""
    return isinstance(budget, str) and "%" in budget


def show(size: int) -> str:
    """4.00 GiB"""
    if size < 1024:
        return f"{size} bytes"
    scale, unit = next(pair for pair in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if size >= pair[0])
    return f"{size / scale:.2f} {unit}"
