"""A line of the table of speeds: a measurement, its aim, and the limit measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

TITLES = ("work", "unit", "aim", "measured", "limit", "measured / limit", "the limit is")


@dataclass(frozen=True, slots=True)
class Row:
    work: str  # what was done
    unit: str  # unit of ``aim``, ``value`` and ``limit``
    aim: str  # what was to be reached, such as ``at least 30``; empty if there is no aim
    value: float
    limit: float  # the measurement of what stands beside it
    beside: str  # what that is

    def shown(self) -> str:
        ratio = f"{self.value / self.limit:.2f}"
        cells = (self.work, self.unit, self.aim or "-", number(self.value), number(self.limit))
        return "| " + " | ".join((*cells, ratio, self.beside)) + " |"


def head() -> str:
    return "| " + " | ".join(TITLES) + " |\n|---|---|---|---:|---:|---:|---|"


def number(value: float) -> str:
    """Return a number with about three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def best(repeats: int, *works: Callable[[], float]) -> list[float]:
    """Return the smallest of several times of each work; they take turns, under the same load."""
    rounds = [[work() for work in works] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this process for a call, in seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began
