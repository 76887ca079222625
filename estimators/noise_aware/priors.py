"""The priors of what causes do to labels and of the margins, and all their scales.

``B_qj ~ N(0, alpha_q^2 kappa_qj^2 C_j)``: a cause has a size, and moves few attributes much. See
noise-aware.md, sections 4 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calmstream.estimators.noise_aware.layout import SCALES, WIDE, Indices, Layout, Reals, choose
from calmstream.estimators.noise_aware.ordered import Levels

START, SIZE = 0.7, 0.3
"""Where sizes of causes, and scales of bits' margins and of causes' shares, begin: sizes may grow
before they are weighed. With 1 the error is 4 % larger, and of three bits with one cause three
times as large. Then the scale of the half-Cauchy prior of a size: small ones are likely, as
correlations of attributes are of order 0.1; large ones stay possible."""

LINE = 0.6
"""Part of the effect on ordered labels that is a line or a parabola, in equal parts."""


class Covariances:
    """One of a list of covariances for the labels of each attribute, in each chain.

    ``choice``: (chains, attributes); ``inverse``: (chains, columns, columns), block diagonal.
    """

    def __init__(self, layout: Layout, lists: Sequence[Reals], chains: int) -> None:
        self._layout = layout
        self._lists = [(np.linalg.inv(found), np.linalg.slogdet(found)[1]) for found in lists]
        self.choice = np.array([len(found) // 2 for found in lists]) + np.zeros((chains, 1), int)
        self.inverse = np.zeros((chains, layout.size, layout.size), np.float32)
        for own, (inverse, _), chosen in zip(layout.own, self._lists, self.choice[0], strict=True):
            self.inverse[:, own, own] = inverse[chosen]

    def redraw(self, i: int, x: Reals, prior: Reals, random: np.random.Generator) -> None:
        """Draw attribute i's, given independent columns x: (chains, columns, labels)."""
        inverse, size = self._lists[i]
        energy = np.stack([((x @ one) * x).sum(axis=(1, 2)) for one in inverse], axis=1)
        self.choice[:, i] = choose(random, prior - 0.5 * (energy + x.shape[1] * size))
        own = self._layout.own[i]
        self.inverse[:, own, own] = inverse[self.choice[:, i]]


class Loadings:
    """The scales of the effects; ``scale`` (chains, causes, columns) is alpha kappa."""

    def __init__(self, layout: Layout, orders: dict[int, Levels], chains: int, causes: int) -> None:
        self._layout, self._orders = layout, orders
        self.alpha = np.full((chains, causes), START)
        self.kappa = np.ones((chains, causes, layout.count))
        lists = [
            _lines(orders[i]) if i in orders else np.eye(width)[None]
            for i, width in enumerate(layout.widths.tolist())
        ]
        self.covariances = Covariances(layout, lists, chains)
        self.rescale()

    def rescale(self) -> None:
        per = self.alpha[:, :, None] * self.kappa
        self.scale = per[:, :, self._layout.owner].astype(np.float32)

    def density(self, loadings: Reals, common: Reals) -> tuple[Reals, Reals, Reals]:
        """Return log densities (chains,), slopes by loadings and by the common means."""
        mean = (self.alpha * common)[:, :, None]
        x = (loadings - mean) / self.scale
        along = x @ self.covariances.inverse if self._orders else x
        own = -0.5 * (x * along).sum(axis=(1, 2)) - 0.5 * np.square(common / WIDE).sum(axis=1)
        slope = self.alpha * (x / self.scale).sum(axis=2) - common / WIDE**2
        return own, -along / self.scale, slope * self._layout.bits

    def redraw(
        self, loadings: Reals, common: Reals, random: np.random.Generator, *, sizes: bool
    ) -> Reals:
        """Draw scales, alpha if ``sizes``, and what tables do not see of loadings; return these."""
        layout, found = self._layout, loadings.astype(float)
        if layout.bits:
            energy = np.square(found - (self.alpha * common)[:, :, None])
        else:
            found = layout.centred(found)
            for i in self._orders:
                own = layout.own[i]
                x = found[:, :, own] / self.scale[:, :, own]
                self.covariances.redraw(i, x, np.zeros(2), random)
            energy = (found * (found @ self.covariances.inverse)) @ layout.member
        self._redraw_kappa(energy, random)
        if sizes:
            self._redraw_alpha(found, energy, common, random)
        if not layout.bits:  # the mean over an attribute's labels has no effect
            level = self.alpha[:, :, None] * self.kappa / np.sqrt(layout.cardinalities)
            found += (level * random.normal(size=level.shape))[:, :, layout.owner]
        self.rescale()
        return np.asarray(found, np.float32)

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


def _lines(levels: Levels) -> Reals:
    """Return C without and with the order: (2, labels, labels); the mean has the variance 1 / r."""
    r, n, codes = len(levels.codes), levels.count, levels.codes
    x, alone = np.zeros(r), np.ones(r, bool)
    x[codes[:n]], alone[codes[:n]] = np.arange(n) - (n - 1) / 2.0, False
    basis = np.stack([np.ones(r), *np.eye(r)[alone], x, np.where(alone, 0.0, x * x)], axis=1)
    lines = np.linalg.qr(basis)[0][:, -2:]
    shift = LINE * (r / 2.0 * lines @ lines.T - np.eye(r) + 1.0 / r)
    return np.asarray(np.eye(r) + np.stack([0.0 * shift, shift]))


PLAIN = (0.02, 0.1, 0.3, 0.6, 1.0, 1.6, 2.5)
"""Deviations of log odds without an order, from nearly even margins to ones with rare labels."""

LEVEL_SMOOTH, LEVEL_ROUGH = (0.05, 0.2, 0.5, 1.2, 3.0, 6.0), (0.02, 0.1, 0.3, 0.8)
"""Deviations of the log density of levels: by how much distant levels differ, from nearly even to a
steep peak, and what neighbours do not share, from next to nothing to more than a factor of 2."""

FREEDOM = 6.0
"""Degrees of freedom of the bits' log odds: a few rare bits are no outliers."""


class BitMargins:
    """Student t with learnt centre and scale."""

    def __init__(self, chains: int, count: int) -> None:
        self.offset = np.zeros(count, np.float32)
        self.centre, self.scale = np.zeros(chains), np.full(chains, START)

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

    Log odds are beyond ``offset``, the logarithms of levels' widths.
    """

    def __init__(self, layout: Layout, orders: dict[int, Levels], chains: int) -> None:
        self._layout, self._orders = layout, orders
        self.offset = np.zeros(layout.size, np.float32)
        for i, levels in orders.items():
            self.offset[layout.own[i]][levels.codes] = levels.offset
        lists = [
            _ordered(orders[i]) if i in orders else np.eye(r) * np.square(PLAIN)[:, None, None]
            for i, r in enumerate(layout.cardinalities.tolist())
        ]
        # The level of log odds is free.
        self.covariances = Covariances(layout, [found + 1.0 for found in lists], chains)
        self.precision = self.covariances.inverse

    def density(self, fields: Reals) -> tuple[Reals, Reals]:
        """Return log densities (chains,) and slopes, from log odds (chains, columns)."""
        along = (fields[:, None] @ self.precision)[:, 0]
        return -0.5 * (fields * along).sum(axis=1), -along

    def redraw(self, fields: Reals, random: np.random.Generator) -> None:
        """Draw the scales given the log odds; a list's even weights count as one margin."""
        ordered = np.isin(np.arange(self._layout.count), list(self._orders))
        for i, own in enumerate(self._layout.own):
            others = np.flatnonzero(ordered == ordered[i])
            chosen = self.covariances.choice[:, others[others != i], None]
            length = len(LEVEL_SMOOTH) * len(LEVEL_ROUGH) + 2 if ordered[i] else len(PLAIN)
            prior = np.log(1.0 / length + (chosen == np.arange(length)).sum(axis=1))
            self.covariances.redraw(i, fields[:, None, own].astype(float), prior, random)


def _ordered(levels: Levels) -> Reals:
    """Return the list of covariances of an ordered margin: (list, labels, labels)."""
    r, n, codes = len(levels.codes), levels.count, levels.codes
    found = [np.eye(r) * np.square(t) for t in PLAIN[-3::2]]  # the order means nothing
    lone: Indices = np.concatenate([codes[levels.lone], codes[n:]]).astype(int)
    for own, rough in zip(level_covariances(n), LEVEL_ROUGH * len(LEVEL_SMOOTH), strict=True):
        one = np.eye(r) * np.square(rough)
        one[np.ix_(codes[:n], codes[:n])] = own
        one[lone, lone] += np.square(PLAIN[-1])
        found.append(one)
    return np.array(found)


def level_covariances(size: int) -> list[Reals]:
    """Return K of the log density of levels for each sigma and tau, section 7: (size, size) each.

    The slope has at most twice the smooth part's deviation: levels that have about equally many
    records by design are even in every respect.
    """
    levels = np.linspace(-1.0, 1.0, size)
    slope = levels / np.sqrt(np.square(levels).mean())
    differences = np.diff(np.eye(size), n=2, axis=0)
    walk = np.linalg.pinv(differences.T @ differences, rcond=1e-12, hermitian=True)
    walk = walk * (size / float(np.trace(walk)))
    return [
        min(1.0, 2.0 * s) ** 2 * np.outer(slope, slope) + s**2 * walk + t**2 * np.eye(size)
        for s in LEVEL_SMOOTH
        for t in LEVEL_ROUGH
    ]
