"""Reads the views of two sources for many tables; what several tables need is computed once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from calmstream.estimators.changes.basis import Floats
from calmstream.estimators.changes.evidence import (
    Evidence,
    Part,
    covariance,
    evidence,
    inverse,
    part_of,
)
from calmstream.estimators.changes.source import Observed, Source, pooled
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Counts
from calmstream.estimators.numerics.simplex import project

MIN_EXPECTED = 5.0  # least expected count of an event, or of its complement, for a view to be used
MIN_UNEVEN, UNEVEN = 40.0, 4.0
"""The same where one side has more than so many times the reports of the other: there the far tail
of chi-square is too light for small counts."""

MIN_PER_CELL = 4
"""Reports per cell below which the covariance is not that of the reported frequencies.

Their noise alone takes about cells/reports of the variance in one direction. With as many reports
as cells the covariance is nearly singular there, and a p-value far too small. The nearest possible
frequencies do not have this fault.
"""

Key = tuple[int, int, tuple[int, ...], bool]
"""Side, number of the view, axes, and whether the covariance is that of both sides together."""


@dataclass(slots=True, eq=False)
class Readings:
    """The views of two sources. Not safe for use from several threads."""

    sides: tuple[Source, Source]
    _pooled: tuple[Counts, ...] | None = field(init=False)
    _known: dict[Key, tuple[Floats, Floats]] = field(init=False, default_factory=dict)
    _shared: dict[tuple[int, tuple[int, ...]], tuple[Floats, Observed]] = field(
        init=False, default_factory=dict
    )
    _rare: dict[tuple[int, int, tuple[int, ...]], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._pooled = pooled(*self.sides)

    def of(
        self, side: int, target: Attributes, *, together: bool
    ) -> tuple[list[Evidence], list[Attributes]]:
        """Return what one side says about a table, and the views that are left out."""
        source = self.sides[side]
        found, left_out = [], []
        for number, own in enumerate(source.views):
            part = part_of(own, target, source.domain)
            if part is None:
                continue
            other = None if self._pooled is None else self.sides[1 - side].views[number]
            both = (own.n,) if other is None else (own.n, other.n)
            wanted = MIN_UNEVEN if max(both) > UNEVEN * min(both) else MIN_EXPECTED
            if not min(both) or self._least(side, number, part) < wanted:
                left_out.append(own.view.attributes)
                continue
            z, precision = self._estimate(side, number, part, together=together)
            found.append(evidence(own, part, target, source.domain, z, precision))
        return found, left_out

    def _least(self, side: int, number: int, part: Part) -> float:
        """Return the least expected count of an event, on the side with fewer reports."""
        shared = self._pooled is not None
        key = (0 if shared else side, number, part.axes)
        if key not in self._rare:
            own = self.sides[side].views[number]
            expected = self._expected(side, number, part, together=True)
            reports = [s.views[number].n for s in self.sides] if shared else [own.n]
            rare = own.mechanism.rarest(expected, part.shape, part.axes)
            self._rare[key] = rare * min(reports)
        return self._rare[key]

    def _estimate(
        self, side: int, number: int, part: Part, *, together: bool
    ) -> tuple[Floats, Floats]:
        """Return the estimated coefficients of a part, and the inverse of their covariance."""
        key = (side, number, part.axes, together)
        if key not in self._known:
            own = self.sides[side].views[number]
            table = own.mechanism.table(own.counts, own.n, part.shape, part.axes)
            precision = self._precision(side, number, part, together=together)
            self._known[key] = part.basis.T @ table, precision
        return self._known[key]

    def _precision(self, side: int, number: int, part: Part, *, together: bool) -> Floats:
        """Return the inverse of the covariance of a part's coefficients.

        At common frequencies it is in proportion to the reports: one inverse serves both sides.
        """
        own = self.sides[side].views[number]
        known = self._shared.get((number, part.axes)) if together else None
        if known is not None and own.repeats == known[1].repeats == 1.0:
            return known[0] * (own.n / known[1].n)
        expected = self._expected(side, number, part, together=together)
        if self._reports(side, number, together=together) < MIN_PER_CELL * part.cells:
            expected = project(expected[None])[0]
        precision = inverse(covariance(own, part, expected))
        if together and self._pooled is not None:
            self._shared[number, part.axes] = precision, own
        return precision

    def _expected(self, side: int, number: int, part: Part, *, together: bool) -> Floats:
        """Return the table whose frequencies give the covariance."""
        own = self.sides[side].views[number]
        counts = self._pooled[number] if together and self._pooled is not None else own.counts
        n = self._reports(side, number, together=together)
        return np.asarray(own.mechanism.table(counts, n, part.shape, part.axes))

    def _reports(self, side: int, number: int, *, together: bool) -> int:
        sides = self.sides if together and self._pooled is not None else (self.sides[side],)
        return sum(one.views[number].n for one in sides)
