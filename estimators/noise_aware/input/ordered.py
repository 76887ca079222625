"""Which attributes have an order, and unbiased estimates of their margins with exact covariances.

All views that contain an attribute say something about its margin. Their estimates are pooled by
generalised least squares. See noise-aware.md, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calmstream.estimators.domain import Attribute
from calmstream.estimators.kinds import Number, Ordered
from calmstream.estimators.mechanisms.base import Counts, Mechanism
from calmstream.estimators.noise_aware.arrays import Flags, Floats, Indices
from calmstream.estimators.noise_aware.input import label_order
from calmstream.estimators.numerics.hadamard import signs
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

MAX_LEVELS = 256
"""Maximum number of labels of an attribute whose order is used; the cost grows with the cube. The
order of a larger one is ignored."""

UNLIKE = 4.0
"""A level whose width differs by this factor from those about it is not compared with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """How the labels of an attribute are ordered; all arrays have the shape (labels,).

    Levels come first, ascending, then the labels without a place in the order.
    """

    offset: Floats  # Logarithm of each level's width, less what is linear in the level
    ordered: Flags  # Whether a label has a place in the order; the label ``other`` has none
    lone: Flags  # Whether the neighbours of a label say nothing about its probability
    codes: Indices  # The code of each label
    stated: bool  # Whether the domain states the order; else the labels' numbers suggest it

    @property
    def count(self) -> int:
        """The number of labels with a place in the order."""
        return int(self.ordered.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """Unbiased estimates of mean signs, independent of each other and of all tables."""

    rows: Floats  # (signs, labels): the sign of each label, 1 or -1
    values: Floats  # (signs,): estimates of the mean over the margin
    variances: Floats  # (signs,)


@dataclass(frozen=True, slots=True, eq=False)
class MarginEstimate:
    """An unbiased estimate of a margin."""

    table: Floats  # (labels,); of sum 1 only if the mechanisms fix the sum; may be negative
    precision: Floats  # (labels, labels): inverse covariance, for differences of sum 0
    near: Floats  # (labels,): a valid table at which the covariance was taken
    signs: Signs | None = None  # The signs among the pooled estimates; None without any

    def of(self, labels: Indices) -> MarginEstimate:
        """Return the estimate with its labels in another order: label ``labels[k]`` is the k-th."""
        signs = self.signs and replace(self.signs, rows=self.signs.rows[:, labels])
        precision = self.precision[np.ix_(labels, labels)]
        return MarginEstimate(self.table[labels], precision, self.near[labels], signs)


def levels_of(attribute: Attribute) -> Levels | None:
    """Return the order of an attribute; None if it has none, fewer than 3 levels, or too many."""
    kind, size = attribute.kind, attribute.cardinality
    places = _places(attribute) if size <= MAX_LEVELS else None
    if places is None or (count := int(np.isfinite(places).sum())) < 3:
        return None
    codes = np.argsort(places, kind="stable")
    offset, lone = np.zeros(size), np.isnan(places[codes])
    if isinstance(kind, Number):
        offset[:count], lone[:count] = _offset(_widths(kind))
    return Levels(offset, np.arange(size) < count, lone, codes, stated=kind is not None)


def _places(attribute: Attribute) -> Floats | None:
    """Return the place of each label in the order, nan without one: (labels,); None: no order."""
    kind, places = attribute.kind, np.arange(attribute.cardinality, dtype=np.float64)
    if isinstance(kind, Number):
        places[len(kind.labels) :] = np.nan
    elif kind is None:
        return label_order.places(attribute.labels)
    return places if isinstance(kind, Number | Ordered) else None


def _widths(number: Number) -> Floats:
    """Return the width of each bin, or of the values nearest to each point of a grid."""
    if number.rounding == "bin":
        return np.asarray(np.diff(number.bounds, axis=1)[:, 0])
    points = np.array(number.values)
    ends = np.concatenate([points[:1], (points[:-1] + points[1:]) / 2.0, points[-1:]])
    # A point at an end has half of the values of one inside.
    return np.asarray(np.diff(ends))


def _offset(widths: Floats) -> tuple[Floats, Flags]:
    """Return logarithms of the widths less their linear part, and which of them mean nothing.

    These are infinite, or differ from those about them by more than a factor of `UNLIKE`, as does a
    bin for the value 0 alone. Shape (levels,) both.
    """
    finite, place = np.isfinite(widths), np.arange(widths.size)
    logs = np.log(np.where(finite, widths, 1.0))
    near = finite
    for _ in range(2):  # the second time without those that mean nothing
        if near.sum() < 2:
            break
        line = np.polyfit(place[near], logs[near], 1)
        away = logs - np.polyval(line, place)
        near = finite & (np.abs(away - np.median(away[near])) < np.log(UNLIKE))
    else:
        away = away - away[near].mean() if near.any() else np.zeros_like(away)
        return np.where(near, away, 0.0), ~near
    return np.zeros(widths.size), ~finite


class OrderedMargins:
    """The estimates of the margins of all attributes with an order.

    Attributes:
        levels: the order of such attributes, by position.
    """

    def __init__(self, plan: CollectionPlan, tallies: Sequence[Tally]) -> None:
        self._plan, self._tallies = plan, tallies
        found = {i: levels_of(attribute) for i, attribute in enumerate(plan.domain.attributes)}
        self.levels = {i: levels for i, levels in found.items() if levels is not None}

    @property
    def stated(self) -> bool:
        """Whether the domain states an order of an attribute."""
        return any(levels.stated for levels in self.levels.values())

    def estimate(self, i: int, expected: Floats) -> MarginEstimate | None:
        """Return the pooled estimate of the margin of attribute i; None without any report on it.

        ``expected`` is a table near the margin, shape (labels,), positive and of sum 1, at which
        the covariances are taken. Cost: O(views of the attribute · labels^3).
        """
        size = expected.size
        total, weighted = np.zeros((size, size)), np.zeros(size)
        for view, mechanism, n, counts in self._views(i):
            if view.kind != "cell":
                continue
            shape, axes = self._plan.domain.shape(view.attributes), [view.attributes.index(i)]
            covariance = mechanism.table_covariance(n, expected, shape, axes)
            if mechanism.fixed_total:
                # The sum has no noise. Noise added to it changes no difference of sum 0.
                covariance = covariance + float(np.trace(covariance)) / size**2
            precision = np.linalg.inv(covariance)
            total += precision
            weighted += precision @ mechanism.table(counts, n, shape, axes)
        signs = self.signs(i, expected)
        if signs is not None:
            total += (signs.rows.T / signs.variances) @ signs.rows
            weighted += signs.rows.T @ (signs.values / signs.variances)
        if not total.any():
            return None
        pooled = np.asarray(np.linalg.solve(total, weighted), np.float64)
        return MarginEstimate(pooled, (total + total.T) / 2.0, expected, signs)

    def _views(self, i: int) -> Iterator[tuple[View, Mechanism, int, Counts]]:
        """Yield the views of attribute i that have reports, with their number and counts."""
        for group, mechanism, tally in zip(
            self._plan.groups, self._plan.mechanisms, self._tallies, strict=True
        ):
            for view, n, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
                if n > 0 and i in view.attributes:
                    yield view, mechanism, n, counts

    def signs(self, i: int, expected: Floats) -> Signs | None:
        """Return the estimates of the signs of attribute i; None without reports on any."""
        found = [
            _sign(view, mechanism, n, counts, expected)
            for view, mechanism, n, counts in self._views(i)
            if view.kind == "parity" and len(view.attributes) == 1
        ]
        if not found:
            return None
        rows, values, variances = (np.array(part) for part in zip(*found, strict=True))
        return Signs(rows, values, variances)


def _sign(
    view: View, mechanism: Mechanism, n: int, counts: Counts, expected: Floats
) -> tuple[Floats, float, float]:
    """Return what a parity says: the sign of each label, the mean sign's estimate and variance."""
    codes = np.arange(expected.size)
    row = signs(codes & view.factors[0])
    odd = float(expected[row < 0.0].sum())
    both, difference = np.array([1.0 - odd, odd]), np.array([1.0, -1.0])
    covariance = mechanism.table_covariance(n, both, (2,), [0])
    value = difference @ mechanism.estimate(counts, n)
    return row, float(value), float(difference @ covariance @ difference)
