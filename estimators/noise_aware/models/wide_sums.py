"""Puts what signs and the order say about wide ranges into a margin of categories.

The margin of categories reads only tables of single labels, whose noise is large over wide ranges.
See noise-aware.md, section 11.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.input.ordered import Signs
from calmstream.estimators.noise_aware.models.merged import Margin

MOST_BLOCKS = 8
"""Maximum number of blocks of neighbouring levels."""

LEAST_IN_BLOCK = 4
"""Least number of levels of a block."""


def read_signs(margin: Margin, signs: Signs, random: np.random.Generator) -> Margin:
    """Return the posterior of a margin after it has read signs: one Kalman step.

    The margin's errors are taken to be independent, apart from their sum, which is 0. Each draw
    reads the estimates with fresh noise of their variances, so that draws show the error that is
    left.
    """
    variance = np.maximum(margin.drawn.var(axis=0), 1e-12)
    # What the sum takes away again; exact where all variances are equal.
    variance = variance / (1.0 - np.minimum(variance / variance.sum(), 0.5))
    covariance = np.diag(variance) - np.outer(variance, variance) / variance.sum()
    moved = signs.rows @ covariance
    gain = np.linalg.solve(moved @ signs.rows.T + np.diag(signs.variances), moved)
    noise = random.normal(size=(len(margin.drawn), signs.values.size)) * np.sqrt(signs.variances)
    mean = margin.mean + (signs.values - signs.rows @ margin.mean) @ gain
    drawn = margin.drawn + (signs.values + noise - margin.drawn @ signs.rows.T) @ gain
    return Margin(_valid(mean), _valid(drawn))


def _valid(tables: Floats) -> Floats:
    """Return tables (..., labels) without negative shares, of sum 1."""
    found = np.maximum(tables, 0.0)
    return np.asarray(found / found.sum(axis=-1, keepdims=True), np.float64)


def with_sums_of(margin: Margin, other: Margin, ordered: int) -> Margin:
    """Return a margin whose sums over blocks of levels are those of another one.

    The first ``ordered`` labels are the levels, and make up to `MOST_BLOCKS` blocks of about equal
    numbers of levels. Labels without an order are blocks of their own. The draws of both are
    paired. A margin of too few levels for two blocks stays as it is.
    """
    blocks = min(MOST_BLOCKS, ordered // LEAST_IN_BLOCK)
    if blocks < 2:
        return margin
    rest = np.arange(margin.mean.size - ordered)
    block = np.concatenate([np.arange(ordered) * blocks // ordered, blocks + rest])
    paired = other.drawn[np.arange(len(margin.drawn)) % len(other.drawn)]
    return Margin(
        _with_sums(margin.mean, other.mean, block), _with_sums(margin.drawn, paired, block)
    )


def _with_sums(tables: Floats, other: Floats, block: Indices) -> Floats:
    """Return tables (..., labels) with the sums of other tables over blocks of labels."""
    members = np.equal.outer(block, np.arange(block[-1] + 1)).astype(np.float64)
    sums, wanted = tables @ members, other @ members
    # A block without mass gets the levels of the other table.
    empty = sums <= 0.0
    ratio = np.where(empty, 0.0, wanted / np.where(empty, 1.0, sums))
    return np.asarray(np.where(empty[..., block], other, tables * ratio[..., block]), np.float64)
