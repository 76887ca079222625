"""The priors of what causes do to labels and of the margins, and all their scales.

``B_qj ~ N(0, alpha_q^2 kappa_qj^2 C_j)``: a cause has a size, and moves few attributes much.
Margins of labels have one of a list of covariances: even scales, or with an order a slope, a random
walk of second order and a rough part. Bits have a Student t of learnt place and scale.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.noise_aware.layout import SCALES, WIDE, Indices, Layout, Reals, choose
from calmstream.estimators.noise_aware.ordered import Levels, levels_of

SIZE = 0.3
"""Scale of the half-Cauchy prior of a cause's size. Small ones are likely, as correlations of
attributes are of order 0.1; large ones stay possible."""

LINE = 0.6
"""Part of the effect on ordered labels that is a line or a parabola, in equal parts."""


class Loadings:
    """The scales of the effects.

    Attributes:
        scale: (chains, causes, columns): alpha kappa.
        inverse: (chains, columns, columns): C^-1.
    """

    def __init__(self, layout: Layout, orders: dict[int, Levels], chains: int, causes: int) -> None:
        self._layout = layout
        self.alpha = np.ones((chains, causes))  # until they are weighed, they may grow
        self.kappa = np.ones((chains, causes, layout.count))
        self.inverse = np.tile(np.eye(layout.size, dtype=np.float32), (chains, 1, 1))
        self.along = np.zeros((chains, layout.count), int)
        self._orders: dict[int, tuple[Reals, Reals]] = {}
        for i, levels in orders.items():
            self._orders[i] = _lines(levels)
            self.along[:, i] = 1
            own = layout.own[i]
            self.inverse[:, own, own] = self._orders[i][0][1]
        self.rescale()

    def rescale(self) -> None:
        """Follow alpha and kappa."""
        per = self.alpha[:, :, None] * self.kappa
        self.scale = per[:, :, self._layout.owner].astype(np.float32)

    def density(self, loadings: Reals, common: Reals) -> tuple[Reals, Reals, Reals]:
        """Return log densities (chains,), slopes by loadings and by the common means."""
        mean = (self.alpha * common)[:, :, None]
        x = (loadings - mean) / self.scale
        along = x @ self.inverse if self._orders else x
        own = -0.5 * (x * along).sum(axis=(1, 2)) - 0.5 * np.square(common / WIDE).sum(axis=1)
        slope = self.alpha * (x / self.scale).sum(axis=2) - common / WIDE**2
        return own, -along / self.scale, slope * self._layout.bits

    def redraw(
        self, loadings: Reals, common: Reals, random: np.random.Generator, *, sizes: bool
    ) -> Reals:
        """Draw the scales, and the part of the loadings that tables do not see; return loadings.

        ``sizes``: whether alpha is drawn, too.
        """
        layout, found = self._layout, loadings.astype(float)
        if layout.bits:
            energy = np.square(found - (self.alpha * common)[:, :, None])
        else:
            found = layout.centred(found)
            self._redraw_along(found, random)
            energy = (found * (found @ self.inverse)) @ layout.member
        self._redraw_kappa(energy, random)
        if sizes:
            self._redraw_alpha(found, energy, common, random)
        if not layout.bits:  # the mean over an attribute's labels has no effect
            level = self.alpha[:, :, None] * self.kappa / np.sqrt(layout.cardinalities)
            level *= np.where(self.along == 1, np.sqrt(1.0 - LINE), 1.0)[:, None]
            found += (level * random.normal(size=level.shape))[:, :, layout.owner]
        self.rescale()
        return np.asarray(found, np.float32)

    def _redraw_along(self, found: Reals, random: np.random.Generator) -> None:
        causes = found.shape[1]
        for i, (inverse, size) in self._orders.items():
            own = self._layout.own[i]
            x = found[:, :, own] / self.scale[:, :, own]
            energy = np.stack([((x @ one) * x).sum(axis=(1, 2)) for one in inverse], axis=1)
            self.along[:, i] = choose(random, -0.5 * (energy + causes * size))
            self.inverse[:, own, own] = inverse[self.along[:, i]]

    def _redraw_kappa(self, energy: Reals, random: np.random.Generator) -> None:
        rate = (1.0 + energy / np.square(self.alpha)[:, :, None]) / 2.0
        shape = np.broadcast_to((1.0 + self._layout.free) / 2.0, rate.shape)
        self.kappa = np.sqrt(rate / random.gamma(shape))

    def _redraw_alpha(
        self, found: Reals, energy: Reals, common: Reals, random: np.random.Generator
    ) -> None:
        if self._layout.bits:
            t = found[..., None] / SCALES - common[:, :, None, None]
            total = np.square(t / self.kappa[..., None]).sum(axis=2)
        else:
            total = (energy / np.square(self.kappa)).sum(axis=2)[:, :, None] / np.square(SCALES)
        score = log_size(SCALES) - 0.5 * total - self._layout.free.sum() * np.log(SCALES)
        self.alpha = SCALES[choose(random, score)]


def log_size(alpha: Reals) -> Reals:
    """Return the log density of the logarithm of a size."""
    return np.asarray(np.log(alpha) - np.log1p(np.square(alpha / SIZE)))


def _lines(levels: Levels) -> tuple[Reals, Reals]:
    """Return the inverses of C without and with the order, and their log determinants."""
    r, n, codes = len(levels.codes), levels.count, levels.codes
    x, alone = np.zeros(r), np.ones(r, bool)
    x[codes[:n]], alone[codes[:n]] = np.arange(n) - (n - 1) / 2.0, False
    basis = np.stack([np.ones(r), *np.eye(r)[alone], x, np.where(alone, 0.0, x * x)], axis=1)
    lines = np.linalg.qr(basis)[0][:, -2:]
    smooth = (1.0 - LINE) * np.eye(r) + LINE * r / 2.0 * lines @ lines.T
    # The level is drawn apart: its variance does not count.
    size = float(np.linalg.slogdet(smooth)[1] - np.log(1.0 - LINE))
    return np.stack([np.eye(r), np.linalg.inv(smooth)]), np.array([0.0, size])


PLAIN = (0.02, 0.1, 0.3, 0.6, 1.0, 1.6, 2.5)
"""Deviations of log odds without an order, from nearly even margins to ones with rare labels."""

LEVEL_SMOOTH, LEVEL_ROUGH = (0.05, 0.2, 0.5, 1.2, 3.0, 6.0), (0.02, 0.1, 0.3, 0.8)
"""Deviations of the log density of levels: by how much distant levels differ, from nearly even to a
steep peak, and what neighbours do not share, from next to nothing to more than a factor of 2."""

LEVEL_SLOPE, LEVEL_SLOPE_RATIO = 1.0, 2.0
"""Slope over the levels in units of their deviation, and its largest ratio to the smooth part:
levels that have about equally many records by design are even in every respect."""

FREEDOM = 6.0
"""Degrees of freedom of the bits' log odds: a few rare bits are no outliers."""


class BitMargins:
    """Student t with learnt centre and scale."""

    def __init__(self, chains: int, count: int) -> None:
        self.offset, self.orders = np.zeros(count, np.float32), dict[int, Levels]()
        self.centre, self.scale = np.zeros(chains), np.full(chains, 0.7)

    @property
    def precision(self) -> Reals:
        """The curvature at the centre: (chains, columns, columns)."""
        each = (FREEDOM + 1.0) / FREEDOM / np.square(self.scale)
        return np.asarray(each[:, None, None] * np.eye(len(self.offset)))

    def density(self, fields: Reals) -> tuple[Reals, Reals]:
        """Return log densities (chains,) and slopes, from log odds (chains, columns)."""
        t = (fields - self.centre[:, None]) / self.scale[:, None]
        power = (FREEDOM + 1.0) / 2.0
        slope = -2.0 * power * t / (FREEDOM + t * t) / self.scale[:, None]
        return -power * np.log1p(t * t / FREEDOM).sum(axis=1), slope

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """Draw the scales given the log odds."""
        power, count = (FREEDOM + 1.0) / 2.0, fields.shape[1]
        t = np.square((fields - self.centre[:, None])[:, :, None] / SCALES)
        prior = -count * np.log(SCALES) - 0.5 * np.square(np.log(SCALES / 0.5))
        self.scale = SCALES[choose(random, prior - power * np.log1p(t / FREEDOM).sum(axis=1))]
        grid = np.linspace(-3.0, 3.0, 81)
        t = np.square((fields[:, :, None] - grid) / self.scale[:, None, None])
        prior = -0.5 * np.square(grid)
        self.centre = grid[choose(random, prior - power * np.log1p(t / FREEDOM).sum(axis=1))]


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
        """Return log densities (chains,) and slopes, from log odds (chains, columns)."""
        along = (fields[:, None] @ self.precision)[:, 0]
        return -0.5 * (fields * along).sum(axis=1), -along

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """Draw the scales given the log odds."""
        for i, (own, (inverse, size)) in enumerate(zip(self._layout.own, self._lists, strict=True)):
            x = fields[:, own].astype(float)
            alike = np.flatnonzero(self.plain == self.plain[i])
            others = self.choice[:, alike[alike != i], None]
            count = (others == np.arange(len(size))).sum(axis=1)
            energy = ((inverse @ x[:, None, :, None])[..., 0] * x[:, None]).sum(axis=2)
            score = np.log(1.0 / len(size) + count) - 0.5 * (energy + size)
            self.choice[:, i] = choose(random, score)
            self.precision[:, own, own] = inverse[self.choice[:, i]]


def _ordered(levels: Levels) -> Reals:
    """Return the list of covariances of an ordered margin: (list, labels, labels)."""
    r, n, codes = len(levels.codes), levels.count, levels.codes
    slope, walk = second_order(n)
    found = [np.eye(r) * np.square(t) for t in PLAIN[-3::2]]  # the order means nothing
    lone: Indices = np.concatenate([codes[levels.lone], codes[n:]]).astype(int)
    for smooth in LEVEL_SMOOTH:
        for rough in LEVEL_ROUGH:
            one = np.eye(r) * np.square(rough)
            steep = min(LEVEL_SLOPE, LEVEL_SLOPE_RATIO * smooth)
            line = steep**2 * np.outer(slope, slope)
            one[np.ix_(codes[:n], codes[:n])] += line + np.square(smooth) * walk
            one[lone, lone] += np.square(PLAIN[-1])
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
