"""Tables with standard errors of any attributes, from the posterior of their moments.

Tables of one and two attributes follow from first and second moments. Larger ones are estimated
from their pair tables. See noise-aware.md, sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Z95
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.models.posterior import Posterior, draws_for
from calmstream.estimators.noise_aware.models.third_moments import ThirdMoments
from calmstream.estimators.noise_aware.priors import THIRD_OF_PAIRS
from calmstream.estimators.noise_aware.tables.binary import BinaryTables
from calmstream.estimators.noise_aware.tables.grouped import log_normal, of_draws, of_interactions
from calmstream.estimators.noise_aware.tables.intervals import (
    INFLATION_SMOOTH,
    half_width,
    log_normal_stderr,
)
from calmstream.estimators.noise_aware.tables.misfit import Fitted
from calmstream.estimators.noise_aware.tables.thirds import Thirds
from calmstream.estimators.numerics.contraction import contract
from calmstream.estimators.numerics.raking import outer, rake, valid_pair

LEAST_KEPT = 1e-3
"""Least part of a cell that third moments leave of it: no cell that is raked may be negative."""


class MomentTables:
    """Tables with standard errors, of any attributes.

    Attributes:
        binary: makes tables of three and more attributes if all are binary; None otherwise, and
            then such tables are raked (`raking`) to their pair tables.
    """

    def __init__(
        self,
        features: Features,
        posterior: Posterior,
        third: ThirdMoments | None,
        inflation: float,
        blocks: Mapping[Attributes, tuple[Floats, float]],
        smooth: Collection[int] = (),
    ) -> None:
        """Keep the moments; ``inflation`` multiplies deviations, see `intervals.INFLATION`.

        ``blocks`` are those of `Statistics`; ``third`` belongs to binary domains. Attributes in
        ``smooth`` have smooth margins, with an inflation of their own.
        """
        self._features, self._posterior, self._inflation = features, posterior, inflation
        all_binary = bool(features.binary.all())
        self.binary = BinaryTables(posterior, third, inflation) if all_binary else None
        self._smooth = frozenset(smooth)
        self._thirds = Thirds(features, blocks, self._mean_table)

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table over ascending attributes and standard errors of its cells.

        Shape of the attributes' cardinalities both.
        """
        if self.binary is not None and len(attributes) > 2:
            table, drawn = self.binary.answer(attributes)
            return table, half_width(table.ravel(), drawn).reshape(table.shape) / Z95
        table, drawn = self._drawn(attributes)
        if len(attributes) > 2:
            variance = drawn.var(axis=0) + self.unmodelled(attributes)
            return table, log_normal_stderr(table, np.sqrt(variance))
        return table, self._inflation_of(attributes) * drawn.std(axis=0)

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return sums over groups of labels and their covariance; see `model.MomentModel`."""
        if self.binary is not None and len(attributes) > 2:
            table, drawn = self.binary.drawn(attributes)
            spread = of_draws(drawn.reshape(-1, *table.shape), members)
        else:
            table, drawn = self._drawn(attributes)
            spread = of_draws(drawn, members)
        sums = contract(table, members).ravel()
        if len(attributes) <= 2:
            return sums, self._inflation_of(attributes) ** 2 * spread
        return sums, log_normal(sums, spread + self.unmodelled_groups(attributes, members))

    def moments(self) -> tuple[Fitted, Fitted]:
        """Return the first and the second moments; see `model.MomentModel`."""
        post, more = self._posterior, self._inflation**2
        return (
            Fitted(post.means, post.mean_variance, more * post.mean_variance),
            Fitted(post.products, post.product_variance, more * post.product_variance),
        )

    def third(self, attributes: Attributes) -> tuple[Floats, float]:
        """Return the interaction of three attributes and the mean variance of its features.

        `Statistics.blocks` has an estimate of it, of the same shape.
        """
        table = self._mean_table(attributes)
        free = prod(r - 1 for r in table.shape) / prod(r if r > 2 else 1 for r in table.shape)
        return self._thirds.interaction(attributes, table), free * self._thirds.variance[attributes]

    def _inflation_of(self, attributes: Attributes) -> float:
        """Return the inflation of the deviations of a table of one or two attributes."""
        alone = len(attributes) == 1 and attributes[0] in self._smooth
        return INFLATION_SMOOTH if alone else self._inflation

    def _drawn(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its posterior draws: shapes (*cardinalities), (draws, *that)."""
        post, table = self._posterior, self._mean_table(attributes)
        draws = draws_for(table.size)
        means, products = post.drawn_means[:draws], post.drawn_products[:draws]
        return table, self._tables(attributes, means, products, table)

    def _mean_table(self, attributes: Attributes) -> Floats:
        """Return the table that the posterior means give: shape (*cardinalities)."""
        post = self._posterior
        table: Floats = self._tables(attributes, post.means[None], post.products[None])[0]
        return table

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
            table = rake(outer(margins), targets)
            shift = self._thirds.shift(attributes)
            if shift is not None:
                table = rake(np.maximum(table + shift, LEAST_KEPT * table), targets)
            return table
        return rake(np.broadcast_to(near, (len(means), *near.shape)), targets, 3)

    def unmodelled(self, attributes: Attributes) -> Floats:
        """Return the variance of each cell from interactions that no model has.

        Shape of the cardinalities. Interactions of three attributes of a domain with categories
        that have no estimate have the size `_third`, in units of the product of the attributes'
        deviations.
        """
        if self.binary is not None:
            return self.binary.unmodelled(attributes).reshape((2,) * len(attributes))
        margins, scales = self._margins(attributes)
        product = outer(margins)[0]
        total = np.zeros_like(product)
        for members in combinations(range(len(attributes)), 3):
            if tuple(attributes[a] for a in members) in self._thirds.variance:
                continue
            inverse = [
                scale / np.maximum(m, 1e-3) if a in members else np.ones_like(m)
                for a, (m, scale) in enumerate(zip(margins, scales, strict=True))
            ]
            total += outer(inverse)[0]
        known = self._thirds.cell_variance(attributes)
        return np.asarray(self._third(attributes) * np.square(product) * total + known)

    def unmodelled_groups(self, attributes: Attributes, members: Sequence[Floats]) -> Floats:
        """Return the covariance of groups of cells from the same interactions."""
        if self.binary is not None:
            return self.binary.unmodelled_groups(attributes, members)
        margins, scales = self._margins(attributes)
        groups = [member @ margin[0] for member, margin in zip(members, margins, strict=True)]
        known, part = self._thirds.mean_variance(attributes)
        spread = of_interactions(
            groups, scales.tolist(), {3: self._third(attributes) * (1.0 - part)}
        )
        if part > 0.0:  # noise is the same in all directions, as the interactions of even margins
            even = [member.mean(axis=1) for member in members]
            spread += of_interactions(even, [1.0] * len(even), {3: known})
        return spread

    def _third(self, attributes: Attributes) -> float:
        """Return the mean square of a standardised interaction of three of these attributes."""
        pairs = [self._correlation[pair] for pair in combinations(attributes, 2)]
        return max(self._posterior.residual**2, THIRD_OF_PAIRS**2 * float(np.mean(pairs)))

    @cached_property
    def _correlation(self) -> Floats:
        """Mean square correlations of each two attributes, by posterior means: (d, d)."""
        post, units = self._posterior, np.square(self._features.unit)
        variance = units * np.maximum(self._features.variance(post.means), 1e-4)
        square = np.square(post.products - np.outer(post.means, post.means))
        starts = [own.start for own in self._features.slices]
        sums = np.add.reduceat(np.add.reduceat(square, starts, axis=0), starts, axis=1)
        total = np.add.reduceat(variance, starts)
        return np.asarray(sums / np.outer(total, total), np.float64)

    def _margins(self, attributes: Attributes) -> tuple[list[Floats], Floats]:
        """Return the attributes' margins, shape (1, cardinality), and their squared units."""
        margins = [self._features.margin(i, self._posterior.means[None]) for i in attributes]
        starts = [self._features.slices[i].start for i in attributes]
        return margins, np.square(self._features.unit[starts])
