"""Square Wave with expectation maximisation and smoothing (EMS), for one number.

Li, Wang, Lopuhaa-Zwakenberg, Li and Skoric, Estimating numerical distributions under local
differential privacy, SIGMOD 2020. A device reports a number near its own with a higher density:
``p = e p_far`` within b of it, on [-b, 1 + b]. Both sides are cut into as many bins as there are
levels. EM starts at the even distribution; after each step it is smoothed by (1, 2, 1) / 4, and it
stops when the log-likelihood of all reports gains less than ``1e-3 e``.
"""

from __future__ import annotations

from math import exp

import numpy as np

Floats = np.ndarray

PARTS = 20
"""Points of a level for which the probabilities of outputs are averaged."""

MAX_STEPS = 10_000


def channel(epsilon: float, levels: int) -> Floats:
    """Return the probability of each output bin given each level: shape (outputs, levels).

    Values are even within a level.
    """
    e = exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    far = 1 / (2 * b * e + 1)
    ends = np.linspace(-b, 1 + b, levels + 1)
    values = (np.arange(levels * PARTS) + 0.5) / (levels * PARTS)
    # The distribution function of a report at the ends of the bins, for each value.
    near = np.clip(ends[:, None] - (values - b), 0, 2 * b)
    below = far * (ends[:, None] + b) + (e - 1) * far * near
    bins = np.diff(below, axis=0)
    return np.asarray(bins.reshape(levels, levels, PARTS).mean(axis=2))


def estimate(epsilon: float, histogram: np.ndarray, random: np.random.Generator) -> Floats:
    """Perturb the devices of a histogram, shape (levels,), and return the estimated shares."""
    matrix = channel(epsilon, len(histogram))
    counts = sum(
        random.multinomial(n, own / own.sum())
        for n, own in zip(histogram.tolist(), matrix.T, strict=True)
    )
    shares = np.full(len(histogram), 1.0 / len(histogram))
    before = -np.inf
    for _ in range(MAX_STEPS):
        expected = matrix @ shares
        shares = shares * (matrix.T @ (counts / expected))
        padded = np.concatenate([shares[:1], shares, shares[-1:]])
        shares = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        shares /= shares.sum()
        likely = float(counts @ np.log(expected))
        if likely - before < 1e-3 * exp(epsilon):
            break
        before = likely
    return shares
