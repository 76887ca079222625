"""Tallies: integer counters, the only information about reports that the service keeps.

Tallies can be added in any order with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calmstream.estimators.arrays import Counts

MOST_COUNT = 1 << 53  # sums over a thousand partitions still fit 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Sufficient statistics of one group, whose devices share a mechanism and some views."""

    n: Counts  # (views,): number of reports per view
    counts: Counts  # (views, width): the mechanism's counters per view

    @classmethod
    def zero(cls, views: int, width: int) -> Self:
        """Return the tally of no reports."""
        return cls(np.zeros(views, np.int64), np.zeros((views, width), np.int64))

    def __add__(self, other: Tally) -> Tally:
        if self.counts.shape != other.counts.shape:
            raise ValueError(f"tallies of shapes {self.counts.shape} and {other.counts.shape}")
        return Tally(self.n + other.n, self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and np.array_equal(self.n, other.n)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def reports(self) -> int:
        return int(self.n.sum())

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n.tolist(), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, document: Any, views: int, width: int) -> Self:
        if not isinstance(document, dict):
            raise ValueError("not a tally: no object")  # noqa: TRY004 - one kind of error
        n = _integers([document.get("n")], 1, views)[0]
        counts = _integers(document.get("counts"), views, width)
        return cls(n, counts)


def _integers(rows: Any, length: int, width: int) -> Counts:
    """Return lists of counts as an array, shape (length, width); ValueError for anything else."""
    if type(rows) is not list or len(rows) != length:
        raise ValueError(f"not a tally: expected {length} lists")
    for row in rows:
        if type(row) is not list or len(row) != width or not set(map(type, row)) <= {int}:
            raise ValueError(f"not a tally: expected {width} integers")
        if row and not 0 <= min(row) <= max(row) <= MOST_COUNT:
            raise ValueError("a tally has a negative count or one that is too large")
    return np.array(rows, np.int64).reshape(length, width)
