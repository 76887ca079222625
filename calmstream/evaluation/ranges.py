"""Errors of answers about ordered attributes: shares of ranges, distances, means and medians.

Numbers are measured in their unit, other attributes in levels: the code of a label. What is not a
number (the code ``other`` of a number) is left out, and the rest divided by its sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calmstream.estimators.analysis.summaries import Distribution, SummaryLevels, levels
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.methods.base import Model


class RangeQuestions:
    """Random ranges over targets, the same for all methods; margins are the single attributes."""

    names = ("range_mse", "wasserstein", "mean_error", "median_error")

    def __init__(
        self,
        domain: Domain,
        targets: Sequence[Attributes],
        count: int,
        generator: np.random.Generator,
    ) -> None:
        self.margins = tuple((j,) for j in range(domain.ordinary))
        self._levels = [levels(attribute) for attribute in domain.attributes]
        self._boxes = [
            (i % len(targets), self._box(targets[i % len(targets)], generator))
            for i in range(count)
        ]
        self._shapes = [domain.shape(target) for target in targets]

    def _box(self, target: Attributes, generator: np.random.Generator) -> tuple[slice, ...]:
        box = []
        for j in target:
            ends = generator.choice(self._levels[j].size + 1, size=2, replace=False)
            box.append(slice(int(ends.min()), int(ends.max())))
        return tuple(box)

    def errors(
        self,
        model: Model,
        answers: Sequence[Floats],
        truths: Sequence[Floats],
        margins: Sequence[Floats],
    ) -> dict[str, float]:
        """Return `names`: of ranges, the Wasserstein-1 distances of margins, of mean and median."""
        changes = [
            (a - t).reshape(shape)
            for a, t, shape in zip(answers, truths, self._shapes, strict=True)
        ]
        squares = [float(changes[i][box].sum()) ** 2 for i, box in self._boxes]
        own = [
            _margin_errors(self._levels[j], model.marginal((j,)).table, margin)
            for j, margin in enumerate(margins)
        ]
        errors = (float(np.mean(squares)), *np.mean(own, axis=0).tolist())
        return dict(zip(self.names, errors, strict=True))


def _margin_errors(
    own: SummaryLevels, estimate: Floats, truth: Floats
) -> tuple[float, float, float]:
    found, true = (
        Distribution(own, x, np.zeros((own.count, own.count))) for x in (estimate, truth)
    )
    gap = np.cumsum(_ordered(own, estimate) - _ordered(own, truth))[:-1]
    distance = float(np.abs(gap) @ np.diff(own.positions))
    mean = abs(found.mean().value - true.mean().value)
    median = abs(found.quantile(0.5).value - true.quantile(0.5).value)
    return distance, mean, median


def _ordered(own: SummaryLevels, shares: Floats) -> Floats:
    inside = np.maximum(shares[: own.size], 0.0)
    total = float(inside.sum())
    uniform: Floats = np.full(own.size, 1.0 / own.size)
    return inside / total if total > 0.0 else uniform
