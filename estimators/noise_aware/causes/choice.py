"""Draws from log probabilities, and probabilities from log odds."""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware.arrays import Indices, Reals


def choose(random: np.random.Generator, score: Reals) -> Indices:
    """Draw an index along the last axis with probability proportional to exp(score)."""
    total = np.cumsum(np.exp(score - score.max(axis=-1, keepdims=True)), axis=-1)
    point = random.random(total.shape[:-1])[..., None] * total[..., -1:]
    return np.asarray((total < point).sum(axis=-1))


def expit(odds: Reals) -> Reals:
    """Return probabilities from log odds."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)))
