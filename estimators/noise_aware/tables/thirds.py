"""Interactions of three attributes, of domains with categories, where views hold estimates of them.

The pair tables of three attributes predict their interaction by maximum entropy. The estimate less
this prediction is a block of noisy numbers. Blocks are shrunk by the horseshoe, each with one gain
for all its directions, and added to the tables. See noise-aware.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import prod

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.models.horseshoe import gains
from calmstream.estimators.noise_aware.priors import LONE_RESIDUAL
from calmstream.estimators.numerics.raking import outer, rake


class Thirds:
    """Shrunk residuals of third moments.

    Attributes:
        variance: by set of three attributes with an estimate, the posterior variance of one
            direction of its interaction.
    """

    def __init__(
        self,
        features: Features,
        blocks: Mapping[Attributes, tuple[Floats, float]],
        table_of: Callable[[Attributes], Floats],
    ) -> None:
        """Shrink the residuals of all blocks together; cost O(252 blocks) and their tables.

        ``blocks`` are those of `Statistics`; ``table_of`` returns the table of one or two
        attributes, shape of the cardinalities.
        """
        self._features = features
        self.variance: dict[Attributes, float] = {}
        self._residuals: dict[Attributes, Floats] = {}
        if not blocks:
            return
        sets = sorted(blocks)
        predicted = predictions(features.cardinalities, sets, table_of)
        residuals = [blocks[own][0] - self.interaction(own, predicted[own]) for own in sets]
        noise = np.array([1.0 / blocks[own][1] for own in sets])
        free = np.array([prod(features.cardinalities[i] - 1 for i in own) for own in sets], float)
        length = np.sqrt([float(np.square(block).sum()) for block in residuals])
        gain, doubt = gains(length, noise, LONE_RESIDUAL, free)
        variance = gain * noise + doubt / free
        for number, own in enumerate(sets):
            self._residuals[own] = gain[number] * residuals[number]
            self.variance[own] = float(variance[number])

    def interaction(self, attributes: Attributes, table: Floats) -> Floats:
        """Return the interaction of three attributes in their table; an axis has features."""
        return self._features.interactions(attributes, table)[1:, 1:, 1:]

    def shift(self, attributes: Attributes) -> Floats | None:
        """Return what the residuals of all sets of three of these attributes add to their table.

        Shape of the cardinalities; None where no set has an estimate. It sums to 0 over every
        attribute of a set.
        """
        shape = [self._features.cardinalities[i] for i in attributes]
        total: Floats | None = None
        for members in combinations(range(len(attributes)), 3):
            own = tuple(attributes[a] for a in members)
            if own not in self._residuals:
                continue
            part = self._residuals[own]
            for i in own:  # the first axis becomes that of the categories, and the last one
                part = np.tensordot(part, self._features.codes[i], (0, 1))
            part = part.reshape([r if a in members else 1 for a, r in enumerate(shape)])
            total = (np.zeros(shape) if total is None else total) + part / prod(shape)
        return total

    def cell_variance(self, attributes: Attributes) -> float:
        """Return the variance that errors of these interactions give to each cell of a table."""
        cells = prod(self._features.cardinalities[i] for i in attributes)
        total = 0.0
        for own in combinations(attributes, 3):
            directions = prod(self._features.cardinalities[i] - 1 for i in own)
            total += directions * self.variance.get(own, 0.0)
        return total / cells**2

    def mean_variance(self, attributes: Attributes) -> tuple[float, float]:
        """Return the mean variance of one direction over all sets of three, 0 where it is unknown.

        Also return the share of the sets with an estimate.
        """
        found = [self.variance.get(own) for own in combinations(attributes, 3)]
        known = [value for value in found if value is not None]
        return sum(known) / max(len(found), 1), len(known) / max(len(found), 1)


def predictions(
    cardinalities: Sequence[int],
    sets: Sequence[Attributes],
    table_of: Callable[[Attributes], Floats],
) -> dict[Attributes, Floats]:
    """Return the tables of maximum entropy of sets of three attributes, given their pair tables.

    Sets of the same shape are raked together. ``table_of`` is that of `Thirds`.
    """
    smaller = {part for own in sets for size in (1, 2) for part in combinations(own, size)}
    known = {part: table_of(part) for part in smaller}
    by_shape: dict[tuple[int, ...], list[Attributes]] = {}
    for own in sets:
        by_shape.setdefault(tuple(cardinalities[i] for i in own), []).append(own)
    found: dict[Attributes, Floats] = {}
    for group in by_shape.values():
        margins = [np.stack([known[own[a],] for own in group]) for a in range(3)]
        targets = [
            ((a, b), np.stack([known[own[a], own[b]] for own in group]))
            for a, b in combinations(range(3), 2)
        ]
        found.update(zip(group, rake(outer(margins), targets), strict=True))
    return found
