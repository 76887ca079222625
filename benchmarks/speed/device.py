"""Measure how fast a device perturbs values, beside the operating system's generator alone.

The limit is the generator that draws the same number of bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.speed.rows import Row, best, processor_seconds
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.randomness import SystemRandomness

REPORTS = 300_000
AIMS = {"grr": "at least 80", "oue": "at least 12", "subset-selection": "at least 6"}


class _Counting:
    """The operating system's generator, with the number of bytes that were drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def bytes(self, count: int) -> bytes:
        self.drawn += count
        return os.urandom(count)


def rows(repeats: int) -> Iterator[Row]:
    """Yield a line for each mechanism over 64 cells, at epsilon 1."""
    for name, aim in AIMS.items():
        yield _row(name, aim, repeats)


def _row(name: str, aim: str, repeats: int) -> Row:
    mechanism, source = standard(name, "1", 64), _Counting()
    values = np.random.default_rng(1).integers(0, 64, REPORTS)
    mechanism.perturb(values, source)

    def draw() -> None:
        for _ in range(0, source.drawn, 1 << 20):
            os.urandom(1 << 20)

    perturbed, drawn = best(
        repeats,
        lambda: processor_seconds(lambda: mechanism.perturb(values, SystemRandomness())),
        lambda: processor_seconds(draw),
    )
    return Row(
        f"device: {name} over 64 cells",
        "M reports/s",
        aim,
        REPORTS / perturbed / 1e6,
        REPORTS / drawn / 1e6,
        f"the generator alone, {source.drawn / REPORTS:.0f} bytes a report",
    )
