"""Loadings of ordered categories, which change along the order.

Where two attributes rise together, the covariance of a category of each is about ``p a q b``, with
p, q their probabilities and a, b their places less the mean. In units of the features' deviations
that is a product of ``a sqrt(p / (1 - p))`` of both. Let the columns of T be the directions of this
form for a linear and for a quadratic function of the place, of length 1. The loadings of one factor
on an attribute of r categories then have the prior

    u ~ N(0, alpha^2 C),   C = (1 - h) I + h r T diag(w) T',   sum w = 1,

which has the same mean variance as without an order. See noise-aware.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.priors import LINE_SHARE, LINE_WEIGHTS

Places = Sequence[Floats | None]
"""The place of each category in its attribute's order, nan for one that has none; None for an
attribute without an order.
"""

LEAST_PROBABILITY = 1e-4
"""Probabilities are raised to this in the directions."""

FREE = 1.0 - LINE_SHARE
"""The variance of a loading that has nothing to do with the order, in units of alpha^2."""


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The directions of one attribute of r categories."""

    own: slice  # Positions of its features
    root: Floats  # T (h r diag(w))^1/2, in units of alpha: shape (r, 2)
    # With R the root, C^-1 = (I - R inner R') / (1 - h) (Woodbury): shape (2, 2).
    inner: Floats


class Lines:
    """The directions of all attributes with an order, and steps with the prior of loadings."""

    def __init__(self, features: Features, places: Places) -> None:
        self._features = features
        self._places = {i: place for i, place in enumerate(places) if place is not None}
        self._lines: dict[int, _Line] = {}

    def __contains__(self, i: int) -> bool:
        """Return whether attribute i has an order."""
        return i in self._places

    def update(self, means: Floats) -> None:
        """Take the directions at these feature means: shape (size,)."""
        for i, place in self._places.items():
            weights = LINE_SHARE * len(place) * np.array(LINE_WEIGHTS)
            root = directions(place, self._features.margin(i, means)) * np.sqrt(weights)
            inner = np.asarray(np.linalg.inv(FREE * np.eye(len(weights)) + root.T @ root))
            self._lines[i] = _Line(self._features.slices[i], root, inner)

    def energy(self, u: Floats) -> Floats:
        """Return ``u' C^-1 u`` of each factor: shape (chains, size, rank) to (chains, rank).

        Loadings of attributes without an order have C = I.
        """
        total = np.square(u).sum(axis=1)
        for line in self._lines.values():
            own = u[:, line.own]
            along, square = line.root.T @ own, np.square(own).sum(axis=1)
            total += (square - (along * (line.inner @ along)).sum(axis=1)) / FREE - square
        return np.asarray(total, np.float64)

    def draw(
        self, i: int, a: Floats, b: Floats, prior: Floats, random: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draw the loadings of attribute i; also return their conditional mean.

        They are ``u = R g + free``, R the root of `_Line`. The coefficients g are drawn with
        ``free`` integrated out, then ``free`` given g.

        Args:
            i: an attribute with an order.
            a: matrices of the normal equations without the prior, (chains, r, rank, rank).
            b: their right sides, (chains, r, rank).
            prior: alpha^-2 on the diagonal, (chains, 1, rank, rank).
            random: source of the draws.

        Returns:
            A draw and the mean, shape (chains, r, rank) both.
        """
        t = self._lines[i].root
        (chains, r, rank), count = b.shape, t.shape[1]
        own = prior / FREE
        half = np.linalg.inv(np.linalg.cholesky(a + own))
        covariance = half.transpose(0, 1, 3, 2) @ half
        # The normal equations without `free`.
        rest = (own - own @ covariance @ own).reshape(chains, r, rank * rank)
        right = (own @ covariance @ b[..., None])[..., 0]
        pairs = (t[:, :, None] * t[:, None, :]).reshape(r, count * count)
        known = (pairs.T @ rest).reshape(chains, count, count, rank, rank)
        known = known.transpose(0, 1, 3, 2, 4).reshape(chains, count * rank, count * rank)
        root = np.linalg.inv(np.linalg.cholesky(known + np.kron(np.eye(count), prior[:, 0])))
        back = root.transpose(0, 2, 1)
        mean = back @ root @ (t.T @ right).reshape(chains, -1, 1)
        drawn = mean + back @ random.normal(size=mean.shape)
        along = t @ np.stack([drawn, mean]).reshape(2, chains, count, rank)
        free = covariance @ (b[..., None] - a @ along[..., None])
        noise = half.transpose(0, 1, 3, 2) @ random.normal(size=(*b.shape, 1))
        loadings = along + free[..., 0]
        return loadings[0] + noise[..., 0], loadings[1]


def directions(place: Floats, margin: Floats) -> Floats:
    """Return the linear and the quadratic direction: shape (categories, 2), of length 1.

    ``place`` is nan for categories without a place; their entries are 0. ``margin`` are about the
    probabilities, (categories,).
    """
    p = np.maximum(margin, LEAST_PROBABILITY)
    root = np.sqrt(p / p.sum())
    lone = np.isnan(place)
    x = np.where(lone, 0.0, place - np.nanmean(place))
    columns = np.stack([np.ones(len(x)), *np.eye(len(x))[lone], x, np.square(x)], axis=1)
    # Functions of the place that are uncorrelated with each other and with a constant.
    scores, _ = np.linalg.qr(root[:, None] * columns)
    found = scores[:, -2:] / np.sqrt(np.maximum(1.0 - np.square(root), LEAST_PROBABILITY))[:, None]
    return np.asarray(found / np.linalg.norm(found, axis=0), np.float64)
