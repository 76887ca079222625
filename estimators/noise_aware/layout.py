"""One column for each label, or one for each bit; features of labels given their log odds.

A domain of bits has one column an attribute, whose feature is the sign (code 0 is +1). Elsewhere a
label c of an attribute of r labels has the feature ``sqrt(r) (1[x = c] - 1 / r)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.domain import Attributes

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
Reals = NDArray[np.floating[Any]]
"""Numbers of single or double precision."""


ORDERS = {True: 4, False: 3}
"""Most attributes of a view, and of a moment that is read: of bits, and of other domains."""

LEAST = 1e-3
"""Least probability, part, scale, variance and information: below it is as good as nothing, but a
logarithm and an inverse must exist."""

SCALES = np.geomspace(LEAST, 10.0, 61)
"""The grid on which scales are drawn: from nothing that statistics show to certainty."""

TYPICAL = (0.6, 0.1, 0.05, 0.03)
"""Usual deviation of an interaction of one, two, three and four attributes; from two on in
correlations. The prior scales of designs; residuals are half as large, and intervals doubt less."""

MAJORITY = 2 / 3
"""Least share of draws that have a cause, and of labels that are numbers: others are exceptions."""

WIDE = 2.0
"""Deviation of log odds of which little is known: shares of 2 % to 98 % are usual."""

MOST_LOGIT = 40.0
"""Log odds beyond this are cut: their exponential must remain a single-precision number."""


class Layout:
    """The columns of all attributes, one after another."""

    def __init__(self, cardinalities: Sequence[int]) -> None:
        self.cardinalities = np.array(cardinalities)
        self.count = len(cardinalities)
        self.bits = bool((self.cardinalities == 2).all())
        self.widths = np.ones(self.count, int) if self.bits else self.cardinalities
        ends = np.cumsum(self.widths).tolist()
        self.own = tuple(slice(e - w, e) for e, w in zip(ends, self.widths, strict=True))
        self.owner = np.repeat(np.arange(self.count), self.widths)
        self.size = len(self.owner)
        self.member = np.zeros((self.size, self.count), np.float32)  # sums over an attribute
        self.member[np.arange(self.size), self.owner] = 1.0
        self.labels = self.cardinalities[self.owner]
        self.root = np.sqrt(self.labels).astype(np.float32)
        self.free = self.widths - (0 if self.bits else 1)
        self.pad = np.full((self.count, int(self.widths.max())), self.size)  # `size`: no column
        for i, own in enumerate(self.own):
            self.pad[i, : own.stop - own.start] = np.arange(own.start, own.stop)
        self.real = self.pad < self.size

    def features(self, logits: Reals) -> tuple[Reals, Reals]:
        """Return features and, for labels, their probabilities: (..., columns, states).

        The log odds are overwritten.
        """
        if self.bits:
            signs = np.tanh(logits, out=logits)
            return signs, signs
        np.clip(logits, -MOST_LOGIT, MOST_LOGIT, out=logits)
        share = np.exp(logits, out=logits)
        share *= self.member @ (1.0 / (self.member.T @ share))
        root = self.root[:, None]
        return share * root - 1.0 / root, share

    def back(self, share: Reals, slope: Reals) -> Reals:
        """Return slopes by log odds from slopes by features, which are overwritten."""
        if self.bits:
            return slope * (1.0 - share * share)
        slope *= self.root[:, None]
        slope *= share
        return slope - share * (self.member @ (self.member.T @ slope))

    def bend(self, share: Reals) -> tuple[Reals, Reals]:
        """Return the first and second derivatives of a feature by its own log odds."""
        if self.bits:
            first = 1.0 - share * share
            return first, -2.0 * share * first
        first = self.root[:, None] * share * (1.0 - share)
        return first, first * (1.0 - 2.0 * share)

    def probabilities(self, means: Reals) -> Reals:
        """Return the probability of each column's label (of a bit: code 0) from mean features."""
        if self.bits:
            return np.asarray((1.0 + means) / 2.0)
        return np.asarray((means + 1.0 / self.root) / self.root)

    def variance(self, share: Reals) -> Reals:
        """Return the variance of each feature, from probabilities."""
        return np.asarray((4.0 if self.bits else self.labels) * share * (1.0 - share))

    def centred(self, columns: Reals) -> Reals:
        """Return columns (..., size) less their mean over the labels of an attribute."""
        return np.asarray(columns - (columns @ self.member / self.cardinalities)[..., self.owner])

    def tables(self, share: Reals) -> list[Reals]:
        """Return each attribute's probabilities (..., states, labels), from those of columns."""
        if self.bits:
            zero = (1.0 + share) / 2.0
            return [np.stack([p, 1.0 - p], axis=-1) for p in np.moveaxis(zero, -2, 0)]
        return [np.ascontiguousarray(share[..., own, :].swapaxes(-1, -2)) for own in self.own]

    def padded(self, columns: Reals) -> Reals:
        """Return columns (..., size) as rows of attributes (..., attributes, widest), 0 beyond."""
        none = np.zeros((*columns.shape[:-1], 1), columns.dtype)
        return np.asarray(np.concatenate([columns, none], axis=-1)[..., self.pad])

    def codes(self, i: int) -> Floats:
        """Return the features of an attribute's labels: (labels, width)."""
        r = int(self.cardinalities[i])
        if self.bits:
            return np.array([[1.0], [-1.0]])
        return np.asarray(np.sqrt(r) * (np.eye(r) - 1.0 / r))

    def interactions(self, tables: Floats, attributes: Attributes) -> Floats:
        """Return the interactions of all attributes of tables: (..., *widths)."""
        first = tables.ndim - len(attributes)
        for axis, i in enumerate(attributes, first):
            tables = np.moveaxis(np.tensordot(tables, self.codes(i), (axis, 0)), -1, axis)
        return tables

    def cells(self, blocks: Floats, attributes: Attributes) -> Floats:
        """Return what interactions of all of some attributes add to cells: (..., *labels)."""
        first = blocks.ndim - len(attributes)
        for axis, i in enumerate(attributes, first):
            codes = self.codes(i) / self.cardinalities[i]
            blocks = np.moveaxis(np.tensordot(blocks, codes, (axis, 1)), -1, axis)
        return blocks

    def margin(self, i: int, means: Reals) -> Floats:
        """Return the table of an attribute, of sum 1, from mean features."""
        r = float(self.cardinalities[i])
        return np.asarray(1.0 / r + means[self.own[i]] @ self.codes(i).T / r, np.float64)


def choose(random: np.random.Generator, score: Reals) -> Indices:
    """Draw an index along the last axis with probability proportional to exp(score)."""
    total = np.cumsum(np.exp(score - score.max(axis=-1, keepdims=True)), axis=-1)
    point = random.random(total.shape[:-1])[..., None] * total[..., -1:]
    return np.asarray((total < point).sum(axis=-1))


def expit(odds: Reals) -> Reals:
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)))
