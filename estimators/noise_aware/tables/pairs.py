"""Tables of any attributes from first and second moments; larger ones are raked to their pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.models.posterior import Posterior, draws_for
from estimators.noise_aware.tables.raking import outer, rake, valid_pair


class PairTables:
    """Tables given pairs; see noise-aware.md, section 7."""

    def __init__(self, features: Features, posterior: Posterior) -> None:
        """Keep the moments and, later, the pair tables made of them."""
        self._features, self._posterior = features, posterior
        self._pairs: dict[Attributes, Floats] = {}

    def table(self, attributes: Attributes) -> Floats:
        """Return the table over ascending attributes: shape of their cardinalities."""
        if len(attributes) == 2:
            return self._pair(*attributes)
        margins = self._margins(attributes)
        if len(attributes) == 1:
            return np.asarray(margins[0][0], np.float64)
        targets = [
            ((a, b), self._pair(attributes[a], attributes[b])[None])
            for a, b in combinations(range(len(attributes)), 2)
        ]
        return np.asarray(rake(outer(margins), targets)[0], np.float64)

    def deviation(self, attributes: Attributes, table: Floats) -> Floats:
        """Return deviations over posterior draws, with unmodelled interactions: shape of table."""
        draws = draws_for(table.size)
        means = self._posterior.drawn_means[:draws]
        products = self._posterior.drawn_products[:draws]
        margins = [self._features.margin(i, means) for i in attributes]
        if len(attributes) == 1:
            return np.asarray(margins[0].std(axis=0))
        pairs = {
            (a, b): self._valid(
                attributes[a], attributes[b], (margins[a], margins[b]), means, products
            )
            for a, b in combinations(range(len(attributes)), 2)
        }
        if len(attributes) == 2:
            return np.asarray(pairs[0, 1].std(axis=0))
        start = np.broadcast_to(table, (len(means), *table.shape))
        drawn = rake(start, list(pairs.items()), 3)  # few rounds: the start is close
        return np.asarray(np.sqrt(drawn.var(axis=0) + self._unmodelled(attributes)))

    def _margins(self, attributes: Attributes) -> list[Floats]:
        return [self._features.margin(i, self._posterior.means[None]) for i in attributes]

    def _pair(self, i: int, j: int) -> Floats:
        if (i, j) not in self._pairs:
            first, second = self._margins((i, j))
            means, products = self._posterior.means[None], self._posterior.products[None]
            found = self._valid(i, j, (first, second), means, products)
            self._pairs[i, j] = np.asarray(found[0])
        return self._pairs[i, j]

    def _valid(
        self, i: int, j: int, margins: tuple[Floats, Floats], means: Floats, products: Floats
    ) -> Floats:
        return valid_pair(self._features.pair(i, j, margins, means, products), *margins)

    def _unmodelled(self, attributes: Attributes) -> Floats:
        """Variance from interactions of three: as large as pairs' residuals, in their units."""
        margins = self._margins(attributes)
        starts = [self._features.slices[i].start for i in attributes]
        scales = np.square(self._features.unit[starts])
        product = outer(margins)[0]
        total = np.zeros_like(product)
        for members in combinations(range(len(attributes)), 3):
            inverse = [
                scale / np.maximum(m, 1e-3) if a in members else np.ones_like(m)
                for a, (m, scale) in enumerate(zip(margins, scales, strict=True))
            ]
            total += outer(inverse)[0]
        return np.asarray(self._posterior.residual**2 * np.square(product) * total)
