"""The causes that the data supports, from draws; see noise-aware.md, section 9.

Causes of all draws that shift labels alike count as one; it is shown only if pairs prove it.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from calmstream.estimators.cause import Cause, LabelShift
from calmstream.estimators.noise_aware.density import states_of
from calmstream.estimators.noise_aware.layout import MAJORITY, Flags, Indices, Layout
from calmstream.estimators.noise_aware.sampler import Draws
from calmstream.estimators.noise_aware.statistics import Targets
from calmstream.estimators.noise_aware.tables import INFLATION

ALIKE = 0.8
"""Least cosine of two patterns that count as one cause. One that few draws have is one way among
many to divide a pattern."""

BEYOND, CERTAIN = 2.0, 3.0
"""By how much evidence exceeds the largest that is expected of noise: four of its deviations. A
label is shown if its shift is so many standard errors: 1 of 400 is shown by chance."""

_Own = tuple[Indices, Indices]  # draws, and which of the causes of each


class _Patterns:
    """What each cause of each draw does: to features, and to probabilities of labels."""

    def __init__(self, targets: Targets, draws: Draws) -> None:
        layout = targets.layout
        weights = draws.weights.astype(float)
        labels = np.concatenate(draws.share, axis=2).astype(float)  # (draws, states, labels)
        states = states_of(int(weights.shape[1]).bit_length() - 1).astype(float)
        present = weights[:, None] * states.T
        self.share = np.clip(present.sum(axis=2), 1e-9, 1.0 - 1e-9)  # (draws, causes)
        whole = (weights[:, None] @ labels)[:, 0]
        self.within = present @ labels / self.share[:, :, None]  # (draws, causes, labels)
        self.without = (whole[:, None] - present @ labels) / (1.0 - self.share)[:, :, None]
        ends = np.cumsum(layout.cardinalities)[:-1]
        moved = np.split(self.within - self.without, ends, axis=2)
        by = [part @ layout.codes(i) for i, part in enumerate(moved)]
        size = np.sqrt(self.share * (1.0 - self.share))[:, :, None]
        self.pattern = np.concatenate(by, axis=2) * size  # (draws, causes, columns)
        features = [part @ layout.codes(i) for i, part in enumerate(draws.share)]
        every = np.concatenate(features, axis=2)
        second = np.einsum("sn,snx,sny->xy", weights, every, every, optimize=True) / len(weights)
        self.left = targets.products - second  # of the second moments, by no cause
        spread = layout.variance(targets.margins) @ layout.member
        unit = self.pattern / np.sqrt(spread)[layout.owner]
        self.direction = unit / np.maximum(np.linalg.norm(unit, axis=2, keepdims=True), 1e-12)


def supported(targets: Targets, draws: Draws) -> tuple[Cause, ...]:
    """Return the causes that the data supports, those with the most evidence first."""
    layout, found = targets.layout, _Patterns(targets, draws)
    count, causes, size = found.direction.shape
    free = np.ones((count, causes), bool)
    flat = found.direction.reshape(-1, size)
    alike = np.abs(flat @ flat.T).reshape(-1, count, causes)
    most = sqrt(2.0 * float(layout.free.sum())) + BEYOND
    out = []
    for _ in range(causes):
        near = np.where(free, alike, 0.0)
        nearest = near.max(axis=2)  # of each draw
        agreed = (nearest >= ALIKE).sum(axis=1) * free.ravel()
        best = int(np.argmax(agreed + 1e-3 * nearest.mean(axis=1) * free.ravel()))
        if agreed[best] < MAJORITY * count:
            break
        rows = np.flatnonzero(nearest[best] >= ALIKE)
        own = rows, near[best, rows].argmax(axis=1)
        free[own] = False
        turned = found.direction[own] @ flat[best] < 0.0
        evidence = _evidence(targets, found, own, turned)
        if evidence > most:
            out.append((evidence, _cause(layout, found, own, turned)))
    ranked = sorted(out, key=lambda one: -one[0])
    return tuple(cause for _, cause in ranked if cause.shifts)


def _evidence(targets: Targets, found: _Patterns, own: _Own, turned: Flags) -> float:
    """Return T: by how many standard errors covariances have a pattern that no other explains."""
    pattern = found.pattern[own]
    mean = np.where(turned[:, None], -pattern, pattern).mean(axis=0)
    unexplained = found.left + pattern.T @ pattern / len(pattern)
    means = np.square(targets.means)
    noise = 1.0 / np.maximum(targets.mean_precision, 1e-12)
    spread = targets.variances + np.outer(means, noise) + np.outer(noise, means)
    shape = np.where(targets.known, np.outer(mean, mean), 0.0)
    scale = sqrt(0.5 * float((np.square(shape) / spread).sum()))  # each pair stands twice
    return 0.5 * float((shape * unexplained / spread).sum()) / scale if scale > 0.0 else 0.0


def _cause(layout: Layout, found: _Patterns, own: _Own, turned: Flags) -> Cause:
    share = np.where(turned, 1.0 - found.share[own], found.share[own])
    if share.mean() > 0.5:  # the side of the fewer people
        turned, share = ~turned, 1.0 - share
    sides = found.within[own], found.without[own]
    within = np.where(turned[:, None], *sides[::-1])
    without = np.where(turned[:, None], *sides)
    moved = within - without
    mean, error = moved.mean(axis=0), INFLATION * moved.std(axis=0)
    place = np.repeat(np.arange(layout.count), layout.cardinalities)
    code = np.concatenate([np.arange(r) for r in layout.cardinalities])
    shown = np.abs(mean) > CERTAIN * error
    shown &= (layout.cardinalities[place] > 2) | (mean > 0.0)  # of two labels that which is raised
    order = np.argsort(-np.abs(mean))
    average = [np.ascontiguousarray(side.T).mean(axis=1) for side in (without, within)]
    shifts = tuple(
        LabelShift(int(place[x]), int(code[x]), *(float(one[x]) for one in (*average, error)))
        for x in order[shown[order]]
    )
    agreement = len(share) / len(found.share)
    return Cause(float(share.mean()), float(INFLATION * share.std()), agreement, shifts)
