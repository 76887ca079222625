"""Errors of answers about ordered attributes: shares of ranges, distances, means and medians.

Numbers are measured in their unit, other attributes in levels: the code of a label. What is not a
number (the code ``other`` of a number) is left out, and the rest divided by its sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.analysis.summaries import Distribution, SummaryLevels, levels
from calmstream.estimators.domain import Attributes, Codes, Domain
from calmstream.estimators.methods.base import Model

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RangeErrors:
    """Mean errors of answers about ordered attributes.

    Attributes:
        range_mse: mean squared error of the shares of random ranges.
        wasserstein: mean over the attributes of the Wasserstein-1 distance between the estimated
            and the true margin.
        mean_error: mean over the attributes of the absolute error of the mean.
        median_error: the same of the median.
    """

    range_mse: float
    wasserstein: float
    mean_error: float
    median_error: float


class RangeQuestions:
    """Random ranges over targets, the same for all methods."""

    def __init__(
        self,
        domain: Domain,
        targets: Sequence[Attributes],
        count: int,
        generator: np.random.Generator,
    ) -> None:
        self._domain = domain
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

    def truth(self, codes: Codes) -> list[Floats]:
        """Return the margins of all attributes among records of shape (n, d)."""
        return [self._domain.histogram(codes, (j,)) / len(codes) for j in range(codes.shape[1])]

    def errors(
        self,
        model: Model,
        answers: Sequence[Floats],
        truths: Sequence[Floats],
        margins: Sequence[Floats],
    ) -> RangeErrors:
        changes = [
            (a - t).reshape(shape)
            for a, t, shape in zip(answers, truths, self._shapes, strict=True)
        ]
        squares = [float(changes[i][box].sum()) ** 2 for i, box in self._boxes]
        pairs = [
            _margin_errors(own, model.marginal((j,)).table, margins[j])
            for j, own in enumerate(self._levels)
        ]
        return RangeErrors(float(np.mean(squares)), *np.mean(pairs, axis=0).tolist())


def _margin_errors(
    own: SummaryLevels, estimate: Floats, truth: Floats
) -> tuple[float, float, float]:
    """Return the Wasserstein-1 distance, and the errors of mean and median."""
    found, true = _distribution(own, estimate), _distribution(own, truth)
    gap = np.cumsum(_ordered(own, estimate) - _ordered(own, truth))[:-1]
    distance = float(np.abs(gap) @ np.diff(own.positions))
    mean = abs(found.mean().value - true.mean().value)
    median = abs(found.quantile(0.5).value - true.quantile(0.5).value)
    return distance, mean, median


def _distribution(own: SummaryLevels, shares: Floats) -> Distribution:
    return Distribution(own, shares, np.zeros((own.count, own.count)))


def _ordered(own: SummaryLevels, shares: Floats) -> Floats:
    inside = np.maximum(shares[: own.size], 0.0)
    total = float(inside.sum())
    uniform: Floats = np.full(own.size, 1.0 / own.size)
    return inside / total if total > 0.0 else uniform
