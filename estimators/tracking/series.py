"""Rows of counter frequencies from window to window, and the evidence for each way to follow them.

A row is a view of a group, or an attribute: the counts of its labels in all views of the group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats
from calmstream.estimators.tracking.candidates import (
    DISCOUNTS,
    LevelCandidates,
    SeasonCandidates,
    Weighted,
)

JUMP = 1000.0  # odds against a row's candidates from which a window starts anew
MEMORY = 1 - 1 / 256
"""What evidence keeps from window to window, so that a change of habits is learnt."""


class Series:
    """The candidates of some rows, and their evidence; ``free`` directions in which each varies."""

    def __init__(self, restart: Floats, free: Floats, width: int, period: int) -> None:
        self.free = free
        self._parts: list[LevelCandidates | SeasonCandidates] = [
            LevelCandidates(DISCOUNTS, restart, width)
        ]
        if period:
            self._parts.append(SeasonCandidates(period, restart, width))
        self.evidence = np.zeros((len(self.predict(0).n), len(restart)))

    def predict(self, window: int) -> Weighted:
        return _joined([part.predict(window) for part in self._parts])

    def now(self) -> Weighted:
        return _joined([part.now() for part in self._parts])

    def drift(self) -> Floats:
        return np.concatenate([part.drift() for part in self._parts])

    def score(self, seen: Weighted, expected: Weighted, noise: Floats) -> Floats:
        """Return the log density of a window by candidate, 0 for rows of which nothing is known."""
        distance, variance = apart(seen, expected, noise)
        squares = np.einsum("cvw,cvw->cv", distance, distance)
        known = (seen.n > 0) & (expected.n > 0).any(axis=0)
        score: Floats = -0.5 * (self.free * np.log(variance) + squares / variance) * known
        return score

    def add(
        self, window: int, n: Floats, counts: Floats, anew: NDArray[np.bool_], score: Floats
    ) -> None:
        """Add a window and its score; the rows of ``anew`` forget what came before."""
        self.evidence *= MEMORY
        self.evidence += np.where(anew, 0.0, score)
        for part in self._parts:
            part.add(window, n, counts, anew)


def jumps(score: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Return which rows a new beginning explains far better than their candidates."""
    mixture = np.log(weights) + score
    top = mixture.max(axis=0)
    total = top + np.log(np.exp(mixture - top).sum(axis=0))
    found: NDArray[np.bool_] = score[0] - total > np.log(JUMP)
    return found


def apart(seen: Weighted, expected: Weighted, noise: Floats) -> tuple[Floats, Floats]:
    """Return the distance of a window from what was expected, and its variance in a direction."""
    variance = noise * (1 / np.maximum(expected.n, 1e-9) + 1 / np.maximum(seen.n, 1.0))
    return seen.mean - expected.mean, variance


def mixed(state: Weighted, weights: Floats, noise: Floats, free: Floats) -> Weighted:
    """Return mean and worth of a mixture: the candidates' variances and their distances add up."""
    # A level without memory knows nothing of a window without reports.
    weights = np.where(state.n > 0, weights, 0.0)
    total = weights.sum(axis=0)
    weights = weights / np.where(total > 0, total, 1.0)
    mean = np.einsum("cv,cvw->vw", weights, state.mean)
    spread = np.einsum("cv,cvw->v", weights, np.square(state.mean - mean)) / free
    inverse = (weights / np.maximum(state.n, 1e-9)).sum(axis=0) + spread / np.maximum(noise, 1e-12)
    return Weighted(np.where(total > 0, 1 / np.where(total > 0, inverse, 1.0), 0.0), mean)


def _joined(parts: list[Weighted]) -> Weighted:
    return Weighted(np.concatenate([p.n for p in parts]), np.concatenate([p.mean for p in parts]))
