"""Reads the views of two sources for many tables; what several tables need is computed once."""

from __future__ import annotations

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.changes.evidence import (
    Evidence,
    Part,
    covariance,
    evidence,
    inverse,
    part_of,
)
from calmstream.estimators.changes.source import Source
from calmstream.estimators.domain import Attributes
from calmstream.estimators.numerics.simplex import project

MIN_EXPECTED = 5.0  # least expected count of an event, or of its complement, for a view to be used
MIN_UNEVEN, UNEVEN = 40.0, 4.0
"""MIN_UNEVEN replaces MIN_EXPECTED where one side has over UNEVEN times the reports of the other:
there the far tail of chi-square is too light for small counts."""

MIN_PER_CELL = 4
"""Reports per cell below which the covariance is not that of the reported frequencies.

Their noise alone takes about cells/reports of the variance in one direction. With as many reports
as cells the covariance is nearly singular there, and a p-value far too small. The nearest possible
frequencies do not have this fault.
"""


class Readings:
    """The views of two sources. Not safe for use from several threads."""

    def __init__(self, first: Source, second: Source) -> None:
        self.sides = first, second
        views = [[(own.view, own.mechanism) for own in side.views] for side in self.sides]
        self._same_views = views[0] == views[1]  # whether counts of both sides may be added
        # By side, number of the view, axes, and whether the covariance is that of both sides.
        self._known: dict[tuple[int, int, Attributes, bool], tuple[Floats, Floats]] = {}
        self._rarest: dict[tuple[int, int, Attributes], float] = {}

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
            if not self._enough(side, number, part):
                left_out.append(own.view.attributes)
                continue
            z, precision = self._estimate(side, number, part, together=together)
            found.append(evidence(own, part, target, source.domain, z, precision))
        return found, left_out

    def _enough(self, side: int, number: int, part: Part) -> bool:
        """Return whether every event is expected often, on the side with fewer reports."""
        sides = self.sides if self._same_views else (self.sides[side],)
        reports = [one.views[number].n for one in sides]
        wanted = MIN_UNEVEN if max(reports) > UNEVEN * min(reports) else MIN_EXPECTED
        if not min(reports):
            return False
        key = (0 if self._same_views else side, number, part.axes)
        if key not in self._rarest:
            expected = self._expected(side, number, part, together=True)[0]
            mechanism = self.sides[side].views[number].mechanism
            self._rarest[key] = mechanism.rarest(expected, part.shape, part.axes)
        return self._rarest[key] * min(reports) >= wanted

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
        own = self.sides[side].views[number]
        if together and self._same_views and (1 - side, number, part.axes, True) in self._known:
            # At common frequencies it is in proportion to the reports: one inverse serves both.
            other = self.sides[1 - side].views[number]
            if own.repeats == other.repeats == 1.0:
                known = self._known[1 - side, number, part.axes, True][1]
                return known * (own.n / other.n)
        expected, n = self._expected(side, number, part, together=together)
        if n < MIN_PER_CELL * part.cells:
            expected = project(expected)
        return inverse(covariance(own, part, expected))

    def _expected(
        self, side: int, number: int, part: Part, *, together: bool
    ) -> tuple[Floats, int]:
        """Return the table whose frequencies give the covariance, and its number of reports."""
        own = self.sides[side].views[number]
        counts: Counts = own.counts
        n = own.n
        if together and self._same_views:
            other = self.sides[1 - side].views[number]
            counts, n = counts + other.counts, n + other.n
        return own.mechanism.table(counts, n, part.shape, part.axes), n
