"""Priors of the margins' log odds, whose scales are learnt from all margins together.

Labels have one of a list of covariances: even scales, or with an order a slope, a random walk of
second order and a rough part. Bits have a Student t distribution of learnt place and scale.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Indices, Reals
from calmstream.estimators.noise_aware.causes.choice import choose
from calmstream.estimators.noise_aware.causes.layout import Layout
from calmstream.estimators.noise_aware.input.ordered import Levels, levels_of

PLAIN = (0.02, 0.1, 0.3, 0.6, 1.0, 1.6, 2.5)
"""Deviations of log odds without an order, from nearly even margins to ones with rare labels."""

LONE = 3.0
"""Deviation of a label whose neighbours say nothing about it: anything is possible."""

WEIGHT = 1.5
"""The list's even weights count as so many margins: two margins already have a say."""

FREEDOM = 6.0
"""Degrees of freedom of the bits' log odds: a few rare bits are no outliers."""


class Margins(Protocol):
    """The prior of the log odds of all margins, shape (chains, columns)."""

    offset: Reals
    """(columns,): what the levels' widths add to the log odds."""

    def density(self, fields: Reals) -> tuple[Reals, Reals]:
        """Return log densities (chains,) and slopes (chains, columns)."""

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """Draw the scales given the log odds."""

    def take(self, chosen: Indices) -> None:
        """Let every chain have the scales of the chosen one."""


class BitMargins:
    """Student t with learnt centre and scale."""

    def __init__(self, chains: int, count: int) -> None:
        self.offset = np.zeros(count, np.float32)
        self.centre, self.scale = np.zeros(chains), np.full(chains, 0.7)

    def density(self, fields: Reals) -> tuple[Reals, Reals]:
        """See `Margins`."""
        t = (fields - self.centre[:, None]) / self.scale[:, None]
        power = (FREEDOM + 1.0) / 2.0
        slope = -2.0 * power * t / (FREEDOM + t * t) / self.scale[:, None]
        return -power * np.log1p(t * t / FREEDOM).sum(axis=1), slope

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """See `Margins`."""
        power, count = (FREEDOM + 1.0) / 2.0, fields.shape[1]
        grid = np.exp(np.linspace(np.log(0.02), np.log(2.5), 40))
        t = np.square((fields - self.centre[:, None])[:, :, None] / grid)
        prior = -count * np.log(grid) - 0.5 * np.square(np.log(grid / 0.5))
        self.scale = grid[choose(random, prior - power * np.log1p(t / FREEDOM).sum(axis=1))]
        grid = np.linspace(-3.0, 3.0, 81)
        t = np.square((fields[:, :, None] - grid) / self.scale[:, None, None])
        prior = -0.5 * np.square(grid)
        self.centre = grid[choose(random, prior - power * np.log1p(t / FREEDOM).sum(axis=1))]

    def take(self, chosen: Indices) -> None:
        """See `Margins`."""
        self.centre, self.scale = self.centre[chosen], self.scale[chosen]


class LabelMargins:
    """Normal with a covariance from a list that margins share, one list with an order, one without.

    Attributes:
        precision: (chains, columns, columns), block diagonal.
    """

    def __init__(self, layout: Layout, domain: Domain, chains: int) -> None:
        self._layout = layout
        found = [levels_of(attribute) for attribute in domain.attributes]
        self.orders = {i: levels for i, levels in enumerate(found) if levels is not None}
        self.plain = np.array([levels is None for levels in found])
        self.offset = np.zeros(layout.size, np.float32)
        self.precision = np.zeros((chains, layout.size, layout.size), np.float32)
        self.choice = np.zeros((chains, layout.count), int)
        self._lists: list[tuple[Reals, Reals]] = []
        for i, (own, levels) in enumerate(zip(layout.own, found, strict=True)):
            r = int(layout.cardinalities[i])
            list_ = (
                np.eye(r) * np.square(PLAIN)[:, None, None] if levels is None else _ordered(levels)
            )
            list_ = list_ + 1.0  # the level of log odds is free
            self._lists.append((np.linalg.inv(list_), np.linalg.slogdet(list_)[1]))
            self.choice[:, i] = len(list_) // 2
            self.precision[:, own, own] = self._lists[i][0][len(list_) // 2]
            if levels is not None:
                self.offset[own][levels.codes] = levels.offset

    def density(self, fields: Reals) -> tuple[Reals, Reals]:
        """See `Margins`."""
        along = (fields[:, None] @ self.precision)[:, 0]
        return -0.5 * (fields * along).sum(axis=1), -along

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """See `Margins`."""
        for i, (own, (inverse, size)) in enumerate(zip(self._layout.own, self._lists, strict=True)):
            x = fields[:, own].astype(float)
            alike = np.flatnonzero(self.plain == self.plain[i])
            others = self.choice[:, alike[alike != i], None]
            count = (others == np.arange(len(size))).sum(axis=1)
            energy = ((inverse @ x[:, None, :, None])[..., 0] * x[:, None]).sum(axis=2)
            score = np.log(WEIGHT / len(size) + count) - 0.5 * (energy + size)
            self.choice[:, i] = choose(random, score)
            self.precision[:, own, own] = inverse[self.choice[:, i]]

    def take(self, chosen: Indices) -> None:
        """See `Margins`."""
        self.precision, self.choice = self.precision[chosen], self.choice[chosen]


def _ordered(levels: Levels) -> Reals:
    """Return the list of covariances of an ordered margin: (list, labels, labels)."""
    r, n, codes = len(levels.codes), levels.count, levels.codes
    slope, walk = second_order(n)
    found = [np.eye(r) * np.square(t) for t in PLAIN[-3::2]]  # the order means nothing
    lone: Indices = np.concatenate([codes[levels.lone], codes[n:]]).astype(int)
    for smooth in priors.LEVEL_SMOOTH:
        for rough in priors.LEVEL_ROUGH:
            one = np.eye(r) * np.square(rough)
            steep = min(priors.LEVEL_SLOPE, priors.LEVEL_SLOPE_RATIO * smooth)
            line = steep**2 * np.outer(slope, slope)
            one[np.ix_(codes[:n], codes[:n])] += line + np.square(smooth) * walk
            one[lone, lone] += np.square(LONE)
            found.append(one)
    return np.array(found)


def second_order(size: int) -> tuple[Reals, Reals]:
    """Return centred levels of mean square 1, and the covariance of a walk of second order.

    Its level and slope are taken out, and its mean variance is 1. Shapes (size,), (size, size).
    """
    levels = np.linspace(-1.0, 1.0, size)
    slope = levels / np.sqrt(np.square(levels).mean())
    differences = np.diff(np.eye(size), n=2, axis=0)
    walk = np.linalg.pinv(differences.T @ differences, rcond=1e-12, hermitian=True)
    return slope, np.asarray(walk * (size / float(np.trace(walk))), np.float64)
