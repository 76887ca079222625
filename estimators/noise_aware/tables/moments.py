"""Tables with standard errors of any attributes, from the posterior of their moments.

Tables of one and two attributes follow from first and second moments. Larger ones are estimated
from their pair tables. See noise-aware.md, sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.models.posterior import Posterior, draws_for
from estimators.noise_aware.models.third_moments import ThirdMoments
from estimators.noise_aware.tables.binary import BinaryTables
from estimators.noise_aware.tables.grouped import log_normal, of_draws, of_interactions
from estimators.noise_aware.tables.intervals import half_width, log_normal_stderr
from estimators.numerics.contraction import contract
from estimators.numerics.raking import outer, rake, valid_pair


class MomentTables:
    """Tables with standard errors, of any attributes.

    Attributes:
        binary: makes tables of three and more attributes if all are binary; None otherwise, and
            then such tables are raked (`raking`) to their pair tables.
    """

    def __init__(
        self, features: Features, posterior: Posterior, third: ThirdMoments | None, inflation: float
    ) -> None:
        """Keep the moments; ``inflation`` multiplies deviations, see `intervals.INFLATION`."""
        self._features, self._posterior, self._inflation = features, posterior, inflation
        all_binary = bool(features.binary.all())
        self.binary = BinaryTables(posterior, third, inflation) if all_binary else None

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table over ascending attributes and standard errors of its cells.

        Shape of the attributes' cardinalities both.
        """
        if self.binary is not None and len(attributes) > 2:
            table, drawn = self.binary.answer(attributes)
            return table, half_width(table.ravel(), drawn).reshape(table.shape) / 1.96
        table, drawn = self._drawn(attributes)
        if len(attributes) > 2:
            variance = drawn.var(axis=0) + self._unmodelled(attributes)
            return table, log_normal_stderr(table, np.sqrt(variance))
        return table, self._inflation * drawn.std(axis=0)

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return sums over groups of labels and their covariance; see `model.MomentModel`."""
        if self.binary is not None and len(attributes) > 2:
            table, drawn = self.binary.drawn(attributes)
            spread = of_draws(drawn.reshape(-1, *table.shape), members)
            spread += self.binary.unmodelled_groups(attributes, members)
        else:
            table, drawn = self._drawn(attributes)
            spread = of_draws(drawn, members)
        sums = contract(table, members).ravel()
        if len(attributes) <= 2:
            return sums, self._inflation**2 * spread
        if self.binary is None:
            spread += self._unmodelled_groups(attributes, members)
        return sums, log_normal(sums, spread)

    def _drawn(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its posterior draws: shapes (*cardinalities), (draws, *that)."""
        post = self._posterior
        table = self._tables(attributes, post.means[None], post.products[None])[0]
        draws = draws_for(table.size)
        means, products = post.drawn_means[:draws], post.drawn_products[:draws]
        return table, self._tables(attributes, means, products, table)

    def _tables(
        self, attributes: Attributes, means: Floats, products: Floats, near: Floats | None = None
    ) -> Floats:
        """Return the tables that several sets of moments give: (batch, *cardinalities).

        Shapes (batch, size) and (batch, size, size). Tables over three and more attributes are
        raked to their pairs: from the product of the margins, or in 3 rounds from the table
        ``near``, which the posterior mean gives and which is close.
        """
        margins = [self._features.margin(i, means) for i in attributes]
        if len(attributes) == 1:
            return margins[0]
        targets = []
        for a, b in combinations(range(len(attributes)), 2):
            own = (margins[a], margins[b])
            pair = self._features.pair(attributes[a], attributes[b], own, means, products)
            targets.append(((a, b), valid_pair(pair, *own)))
        if len(attributes) == 2:
            return targets[0][1]
        if near is None:
            return rake(outer(margins), targets)
        return rake(np.broadcast_to(near, (len(means), *near.shape)), targets, 3)

    def _unmodelled(self, attributes: Attributes) -> Floats:
        """Return the variance of each cell from interactions of three attributes.

        They have no estimate. They are taken to be as large as the residuals of pairs, in units of
        the product of the attributes' deviations.
        """
        margins, scales = self._margins(attributes)
        product = outer(margins)[0]
        total = np.zeros_like(product)
        for members in combinations(range(len(attributes)), 3):
            inverse = [
                scale / np.maximum(m, 1e-3) if a in members else np.ones_like(m)
                for a, (m, scale) in enumerate(zip(margins, scales, strict=True))
            ]
            total += outer(inverse)[0]
        return np.asarray(self._posterior.residual**2 * np.square(product) * total)

    def _unmodelled_groups(self, attributes: Attributes, members: Sequence[Floats]) -> Floats:
        """Return the covariance of groups of cells from the same interactions."""
        margins, scales = self._margins(attributes)
        groups = [member @ margin[0] for member, margin in zip(members, margins, strict=True)]
        return of_interactions(groups, scales.tolist(), {3: self._posterior.residual**2})

    def _margins(self, attributes: Attributes) -> tuple[list[Floats], Floats]:
        """Return the attributes' margins, shape (1, cardinality), and their squared units."""
        margins = [self._features.margin(i, self._posterior.means[None]) for i in attributes]
        starts = [self._features.slices[i].start for i in attributes]
        return margins, np.square(self._features.unit[starts])
