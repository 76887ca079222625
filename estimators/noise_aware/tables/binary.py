"""Tables over three and more binary attributes, and draws of them, from posterior moments.

A table has maximum entropy given its pairs and triples, whose targets need not be met exactly
(`models.relaxed`). See noise-aware.md, sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.models import relaxed
from calmstream.estimators.noise_aware.models.posterior import Posterior, draws_for
from calmstream.estimators.noise_aware.models.third_moments import ThirdMoments, moments
from calmstream.estimators.noise_aware.priors import LARGEST_DECAY
from calmstream.estimators.noise_aware.tables.grouped import of_interactions
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import sets_up_to

MAX_WITH_TRIPLES = 16
"""Tables of more attributes use pairs only: a Newton step costs the cube of the constraints."""


class BinaryTables:
    """Tables by relaxed maximum entropy, given pairs and, where there are estimates, triples."""

    def __init__(self, posterior: Posterior, third: ThirdMoments | None, inflation: float) -> None:
        """Keep the posteriors; ``third`` is None where no view has three attributes.

        The distance of a draw of the moments from the mean draw is multiplied by ``inflation``.
        """
        self._posterior, self._third, self._inflation = posterior, third, inflation
        spread = np.maximum(1.0 - np.square(posterior.means), 1e-4)
        above = np.triu_indices(spread.size, 1)
        own = (posterior.products - np.outer(posterior.means, posterior.means))[above]
        scale = np.outer(spread, spread)[above]
        square = (np.square(own) + posterior.product_variance[above]) / scale
        self._pair_size = float(np.sqrt(square.mean())) if square.size else 0.0

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table of three or more ascending attributes, and draws of its cells.

        Shapes (2,) * attributes and (draws, cells). Cost: O(draws (sets^3 + cells · attributes)).
        """
        table, drawn = self.drawn(attributes)
        random = np.random.default_rng(20150301)  # fixed: equal tallies give equal answers
        drawn += random.normal(size=drawn.shape) * np.sqrt(self.unmodelled(attributes))
        return table, np.maximum(drawn, 0.0)

    def drawn(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the same without interactions that have no estimate."""
        post, k, members = self._posterior, len(attributes), np.array([attributes], np.intp)
        draws = draws_for(1 << k)
        targets = moments(post.means, post.products, members)
        variances = moments(post.mean_variance, post.product_variance, members)
        drawn = moments(post.drawn_means[:draws], post.drawn_products[:draws], members)[:, 0]
        changes = drawn - drawn.mean(axis=0)
        found = relaxed.fit(sets_up_to(k, 2), targets, variances)
        third = self._third_of(attributes)
        if third is not None:
            more, doubt, shift = self._triples(attributes, found, third, draws)
            found = relaxed.fit(
                sets_up_to(k, 3),
                np.hstack([targets, more[None]]),
                np.hstack([variances, doubt[None]]),
                np.hstack([found.weights, np.zeros((1, more.size))]),
            )
            changes = np.hstack([changes, shift])
        return found.tables[0].reshape((2,) * k), found.again(self._inflation * changes)

    def _third_of(self, attributes: Attributes) -> ThirdMoments | None:
        return self._third if len(attributes) <= MAX_WITH_TRIPLES else None

    @staticmethod
    def _triples(
        attributes: Attributes, pairs: relaxed.Relaxed, third: ThirdMoments, draws: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return targets and variances of the third moments, and deviations of their draws.

        A target is the residual of the moment plus a prediction. There are two predictions: by the
        triple's own pairs, against which the residual was measured, and by all pairs of the table,
        which is better where no residual is known. `ThirdMoments.known` weighs the two.
        """
        sets, c = sets_up_to(len(attributes), 3), third.known
        place = np.array([third.position[t] for t in combinations(attributes, 3)], np.intp)
        of_all_pairs = transform(pairs.tables)[0, sets.index[sets.order == 3]]
        predicted = c * third.triples.predicted[place] + (1.0 - c) * of_all_pairs
        doubt = third.variance[place] + c * third.triples.drawn[:, place].var(axis=0)
        return predicted + third.shift[place], doubt, third.drawn[:draws, place]

    def unmodelled(self, attributes: Attributes) -> Floats:
        """Return the variance of each cell from orders without any estimate: shape (cells,).

        The size of an interaction decays from one order to the next as it does from pairs to
        triples. The sum over all sets of an order is an elementary symmetric polynomial of the
        squared standardised features, row by row in ``symmetric``.
        """
        k, share = len(attributes), self._shares(attributes)
        product = np.ones(1)
        symmetric = np.zeros((k + 1, 1))
        symmetric[0] = 1.0
        for own in share:
            product = np.outer(product, own).ravel()
            added = np.tile((1.0 - own) / own, symmetric.shape[1])
            old = np.repeat(symmetric, 2, axis=1)
            symmetric = old.copy()
            symmetric[1:] += old[:-1] * added
        total = np.zeros(product.size)
        for order, variance in self._sizes(attributes).items():
            total += variance * symmetric[order]
        return np.asarray(np.square(product) * total, np.float64)

    def unmodelled_groups(self, attributes: Attributes, members: Sequence[Floats]) -> Floats:
        """Return the covariance of groups of cells from the same orders: (groups, groups)."""
        shares = self._shares(attributes)
        groups = [member @ share for member, share in zip(members, shares, strict=True)]
        return of_interactions(groups, [1.0] * len(groups), self._sizes(attributes))

    def _shares(self, attributes: Attributes) -> Floats:
        """Return the attributes' margins, away from 0 and 1: shape (attributes, 2)."""
        share = (1.0 + np.outer(self._posterior.means[list(attributes)], [1.0, -1.0])) / 2.0
        return np.clip(share, 1e-3, 1.0 - 1e-3)

    def _sizes(self, attributes: Attributes) -> dict[int, float]:
        """Return the variance of a standardised interaction, by order without estimates."""
        third = self._third_of(attributes)
        largest = third.size if third is not None else self._posterior.residual
        ratio = min(LARGEST_DECAY, largest / max(self._pair_size, 1e-9))
        orders = range(3 if third is None else 4, len(attributes) + 1)
        return {order: (largest * ratio ** (order - 3)) ** 2 for order in orders}
