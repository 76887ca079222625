"""Mixtures of independent binary attributes: moments, likelihood of estimates, derivatives.

Given one of a few nodes z_t (of weight w_t) attributes are independent with means ``m_i(t) =
tanh(a_i + b_i . z_t)``, so moments are ``theta_S = sum_t w_t prod_{i in S} m_i(t)``. The nodes are
those of Gauss and Hermite for a normal z. See noise-aware.md, section 5.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Singles
from calmstream.estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics


def nodes(traits: int, each: int) -> tuple[Floats, Floats]:
    """Return nodes and weights for a standard normal distribution, ``each`` along one dimension.

    Shapes (nodes, 1 + traits), its first column 1, and (nodes,), of sum 1.
    """
    x, w = np.polynomial.hermite_e.hermegauss(each)
    grid = np.array(list(product(x, repeat=traits)))
    weight = np.array(list(product(w / w.sum(), repeat=traits))).prod(axis=1)
    return np.hstack([np.ones((len(grid), 1)), grid]), weight


class ByOrder(NamedTuple):
    """Values of the estimates of each order, such as their gaps to the model, or their weights."""

    one: Floats  # (chains, d), or (d,) where all chains have the same
    two: Floats  # (chains, d, d)
    three: Floats  # (chains, triples)


def likelihood(gaps: ByOrder, weights: ByOrder) -> Floats:
    """Return the log likelihood of gaps, up to a function of the inverse variances: (chains,)."""
    out = (weights.one * np.square(gaps.one)).sum(axis=1)
    out += 0.5 * (weights.two * np.square(gaps.two)).sum(axis=(1, 2))
    out += (weights.three * np.square(gaps.three)).sum(axis=1)
    return np.asarray(-0.5 * out, np.float64)


class Mixtures:
    """One mixture for each chain, with the estimates of moments of order one to three.

    Parameters have shape (chains, 1 + traits, d): fields a, then loadings b of each trait. Means
    given nodes have shape (chains, d, nodes). Estimates have precisions (first moments) or noise
    variances. ``known`` says which second moments have an estimate, ``pairs`` lists those above the
    diagonal.
    """

    def __init__(self, statistics: Statistics, traits: int, each: int) -> None:
        """Arrange the estimates; ``traits`` and ``each`` are those of `nodes`."""
        self._basis, self._weight = nodes(traits, each)
        self.d = d = statistics.means.size
        self.estimates = statistics.means
        self.precision = np.minimum(statistics.mean_precision, MOST_PRECISE)
        precision = np.minimum(statistics.product_precision, MOST_PRECISE)
        self.known = (precision > 0) & ~np.eye(d, dtype=bool)
        self.pair_noise = 1.0 / np.where(self.known, precision, 1.0)
        self.pair_estimates = np.where(self.known, statistics.products, 0.0)
        self.pairs = np.nonzero(np.triu(self.known, 1))
        found = {s: t for s, t in sorted(statistics.higher.items()) if len(s) == 3 and t[1] > 0}
        estimates, precision = np.array(list(found.values()), np.float64).reshape(-1, 2).T
        self._triple_estimates = estimates
        self.triple_noise = 1.0 / np.minimum(precision, MOST_PRECISE)
        self._triples = np.array(list(found), np.intp).reshape(-1, 3).T
        # All pairs, and the three cells of each triple in a matrix of attributes by pairs.
        self._j, self._k = np.triu_indices(d, 1)
        number = np.zeros((d, d), np.intp)
        number[self._j, self._k] = number[self._k, self._j] = np.arange(self._j.size)
        i, j, k = self._triples
        across = np.concatenate([number[j, k], number[i, k], number[i, j]])
        self._places = self._triples.ravel() * self._j.size + across
        # The triple in each cell of that matrix; the number of triples stands for none.
        self._triple_at = np.full(d * self._j.size, i.size)
        self._triple_at[self._places] = np.tile(np.arange(i.size), 3)

    def given_nodes(self, parameters: Floats) -> Floats:
        """Return the means of attributes given nodes: shape (chains, d, nodes)."""
        return np.asarray(np.tanh(parameters.transpose(0, 2, 1) @ self._basis.T), np.float64)

    def first_two(self, means: Floats) -> tuple[Floats, Floats]:
        """Return first and second moments: shapes (chains, d) and (chains, d, d)."""
        weighted = means * self._weight
        return weighted.sum(axis=2), weighted @ means.transpose(0, 2, 1)

    def gaps(self, means: Floats) -> tuple[ByOrder, Singles | None]:
        """Return estimates less moments and, where there are triples, products of pairs of means.

        Products have shape (chains, pairs, nodes) and single precision: third moments are never
        estimated more precisely. Cost: O(chains d^2 nodes), d times that with triples.
        """
        one, two = self.first_two(means)
        three, products = np.zeros((len(means), 0)), None
        if self.triple_noise.size:
            single = means.astype(np.float32)
            products = single.take(self._j, axis=1)
            products *= single.take(self._k, axis=1)
            moments = (single * self._weight.astype(np.float32)) @ products.transpose(0, 2, 1)
            own = self._places[: self.triple_noise.size]
            three = moments.reshape(len(means), -1).take(own, axis=1).astype(np.float64)
        pairs, triples = self.pair_estimates - two, self._triple_estimates - three
        return ByOrder(self.estimates - one, pairs, triples), products

    def density(self, means: Floats, weights: ByOrder) -> tuple[Floats, Floats]:
        """Return the log likelihood (chains,) and its gradient by the parameters.

        ``means`` are those of `given_nodes`.
        """
        gaps, products = self.gaps(means)
        pull = np.zeros_like(means)
        if products is not None:
            pulls = np.zeros((len(means), self.triple_noise.size + 1), np.float32)
            np.multiply(weights.three, gaps.three, out=pulls[:, :-1], casting="same_kind")
            spread = pulls.take(self._triple_at, axis=1).reshape(len(means), self.d, -1)
            pull += spread @ products
        pull += (weights.two * gaps.two) @ means
        pull += (weights.one * gaps.one)[:, :, None]
        pull *= (1.0 - np.square(means)) * self._weight
        return likelihood(gaps, weights), (pull @ self._basis).transpose(0, 2, 1)

    def curvature(self, parameters: Floats, weights: ByOrder) -> Floats:
        """Return the expected curvature of minus the log likelihood, a mean over chains.

        Shape (parameters, parameters). Cost: O(chains (d^2 + triples) traits (traits + nodes)).
        """
        means = self.given_nodes(parameters)
        bend = (1.0 - np.square(means)) * self._weight
        turned = bend[:, None] * self._basis.T[:, None]  # (chains, 1 + traits, d, nodes)
        one = turned.sum(axis=3)
        two = turned @ means.transpose(0, 2, 1)[:, None]  # of theta_ij by parameters of i
        weighted = weights.two[:, None] * two
        blocks = (weighted[:, :, None] * two.transpose(0, 1, 3, 2)[:, None]).sum(axis=0)
        own = np.einsum("cpij,crij->pri", weighted, two)
        own += np.einsum("i,cpi,cri->pri", weights.one, one, one)
        every = np.arange(self.d)
        blocks[:, :, every, every] += own
        if self.triple_noise.size:
            blocks += self._of_triples(turned, means, weights.three)
        size = parameters[0].size
        return np.asarray(blocks.transpose(0, 2, 1, 3).reshape(size, size) / len(means))

    def _of_triples(self, turned: Floats, means: Floats, weight: Floats) -> Floats:
        """Return the triples' part of the curvature, summed over chains.

        Shape (1 + traits, 1 + traits, d, d).
        """
        width, d, triples = turned.shape[1], self.d, self.triple_noise.size
        slopes = np.empty((3, triples, width, len(means)))  # by each of a triple's attributes
        root = np.sqrt(np.broadcast_to(weight, (len(means), triples)))
        for chain, own in enumerate(means):
            pairs = own.take(self._j, axis=0) * own.take(self._k, axis=0)
            by_pair = (turned[chain].reshape(width * d, -1) @ pairs.T).reshape(width, -1)
            found = by_pair.take(self._places, axis=1).reshape(width, 3, triples)
            slopes[:, :, :, chain] = (found * root[chain]).transpose(1, 2, 0)
        block = np.arange(width * width)[:, None] * d * d
        total = np.zeros(width * width * d * d)
        for a, b in product(range(3), repeat=2):
            values = (slopes[a] @ slopes[b].transpose(0, 2, 1)).reshape(triples, -1).T
            places = (block + self._triples[a] * d + self._triples[b]).ravel()
            total += np.bincount(places, values.ravel(), total.size)
        return total.reshape(width, width, d, d)
