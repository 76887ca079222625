"""Tables over three and more binary attributes, from posterior moments, and draws of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.walsh import AttributeSets, sets_up_to
from estimators.noise_aware.models import relaxed
from estimators.noise_aware.models.posterior import draws_for
from estimators.noise_aware.models.third_moments import moments
from estimators.noise_aware.tables.intervals import WIDER
from estimators.numerics.hadamard import transform

if TYPE_CHECKING:
    from estimators.domain import Attributes
    from estimators.noise_aware.models.posterior import Posterior
    from estimators.noise_aware.models.third_moments import Third

Floats = NDArray[np.float64]

MAX_WITH_TRIPLES = 16
"""Larger tables are made of pairs alone: there are too many triples to solve for."""

MAX_DECAY = 0.5
"""Each order is taken to be at most half as large as the one before."""

_SEED = 20150301


class BinaryTables:
    """Relaxed maximum entropy (`relaxed`) given pairs and, where they are known, triples."""

    def __init__(self, posterior: Posterior, third: Third | None, wider: float = WIDER) -> None:
        """Keep what is known.

        Args:
            posterior: of first and second moments.
            third: of third moments.
            wider: how much farther from their mean than they do draws are taken to lie.
        """
        self._posterior, self._third, self._wider = posterior, third, wider
        size = posterior.means.size
        spread = np.maximum(1.0 - np.square(posterior.means), 1e-4)
        above = np.triu_indices(size, 1)
        own = (posterior.products - np.outer(posterior.means, posterior.means))[above]
        scale = np.outer(spread, spread)[above]
        square = (np.square(own) + posterior.product_variance[above]) / scale
        self._pair_size = float(np.sqrt(square.mean())) if square.size else 0.0

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Table, and draws of its cells: shapes (2,) * attributes and (draws, cells).

        Draws of moments are moved away from their mean, and each is made a table. What no report
        speaks about moves its cells, though not below 0.

        Args:
            attributes: at least three, ascending.

        Cost: O(draws (sets^3 + cells · attributes)): 10 ms for six attributes where triples are
        known, 0.2 s for ten, 2 s for 13 and more.
        """
        found, changes = self._with_pairs(attributes)
        third = self._third_of(attributes)
        if third is not None:
            found, changes = self._with_triples(attributes, found, changes, third)
        drawn = found.again(self._wider * changes)
        drawn += np.random.default_rng(_SEED).normal(size=drawn.shape) * np.sqrt(
            self.unseen(attributes)
        )
        return found.tables[0].reshape((2,) * len(attributes)), np.maximum(drawn, 0.0)

    def _with_pairs(self, attributes: Attributes) -> tuple[relaxed.Relaxed, Floats]:
        """Table given first and second moments, and how draws of these differ."""
        post, k = self._posterior, len(attributes)
        draws = draws_for(1 << k)
        members = np.array([attributes], np.intp)
        found = relaxed.fit(
            sets_up_to(k, 2),
            moments(post.means, post.products, members),
            moments(post.mean_variance, post.product_variance, members),
        )
        drawn = moments(post.drawn_means[:draws], post.drawn_products[:draws], members)[:, 0]
        return found, drawn - drawn.mean(axis=0)

    def _with_triples(
        self, attributes: Attributes, pairs: relaxed.Relaxed, changes: Floats, third: Third
    ) -> tuple[relaxed.Relaxed, Floats]:
        """Table given third moments too.

        A third moment is its residual plus what pairs foretell: the triple's own pairs, from whose
        prediction the residual was measured, or all pairs of the table, which foretell better if
        there is no residual at all. The share of the residuals that is known weighs the two.
        """
        k, c = len(attributes), third.known
        sets = sets_up_to(k, 3)
        place = np.array([third.position[t] for t in combinations(attributes, 3)], np.intp)
        wider = transform(pairs.tables)[0, _third_cells(sets)]
        predicted = c * third.triples.predicted[place] + (1.0 - c) * wider
        drawn = third.drawn[: len(changes), place]
        doubt = third.variance[place] + c * third.triples.drawn[:, place].var(axis=0)
        post, members = self._posterior, np.array([attributes], np.intp)
        one = moments(post.means, post.products, members)[0]
        noise = moments(post.mean_variance, post.product_variance, members)[0]
        found = relaxed.fit(
            sets,
            np.concatenate([one, predicted + third.shift[place]])[None],
            np.concatenate([noise, doubt])[None],
            np.concatenate([pairs.weights[0], np.zeros(place.size)])[None],
        )
        return found, np.hstack([changes, drawn])

    def _third_of(self, attributes: Attributes) -> Third | None:
        return self._third if len(attributes) <= MAX_WITH_TRIPLES else None

    def unseen(self, attributes: Attributes) -> Floats:
        """Variance of each cell from interactions of orders that no report speaks about: (cells,).

        An interaction of order o, in units of its attributes' deviations, is taken to have size
        ``c_3 min(c_3 / c_2, 1/2)^(o - 3)``: c_2 that of correlations, c_3 that of residuals of
        three or, if these are unknown too, of two. To first order it moves a cell by its size times
        the cell of the product table times the standardised features; the sum over all sets of an
        order is an elementary symmetric polynomial of their squares.
        """
        k, third = len(attributes), self._third_of(attributes)
        largest = third.size if third is not None else self._posterior.residual
        ratio = min(MAX_DECAY, largest / max(self._pair_size, 1e-9))
        first = 4 if third is not None else 3
        share = (1.0 + np.outer(self._posterior.means[list(attributes)], [1.0, -1.0])) / 2.0
        share = np.clip(share, 1e-3, 1.0 - 1e-3)
        product = np.ones(1)
        symmetric = np.zeros((k + 1, 1))
        symmetric[0] = 1.0
        for own in share:
            product = np.outer(product, own).ravel()
            old = np.repeat(symmetric, 2, axis=1)
            added = np.tile((1.0 - own) / own, symmetric.shape[1])
            symmetric = old.copy()
            symmetric[1:] += old[:-1] * added
        total = np.zeros(product.size)
        for order in range(first, k + 1):
            total += (largest * ratio ** (order - 3)) ** 2 * symmetric[order]
        return np.asarray(np.square(product) * total, np.float64)


def _third_cells(sets: AttributeSets) -> NDArray[np.intp]:
    """Cells of the transform that hold third moments."""
    return np.asarray(sets.index[sets.order == 3])
