"""Mixtures of independent binary attributes: their moments, and what estimates say about them.

Given one of a few nodes z_t (of weight w_t) attributes are independent with means

    m_i(t) = tanh(a_i + b_i . z_t),   so   theta_S = sum_t w_t prod_{i in S} m_i(t)

is the moment of any set S: a linear map of products, and its derivatives by a and b are sums over
nodes too. Nodes are those of Gauss and Hermite for a normal z. That there are so few makes the law
of z a discrete one near the normal; nothing else is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.statistics import MOST_PRECISE

if TYPE_CHECKING:
    from estimators.noise_aware.input.statistics import Statistics

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


def nodes(traits: int, each: int) -> tuple[Floats, Floats]:
    """Nodes and weights for a standard normal law.

    Args:
        traits: dimensions.
        each: nodes along one of them.

    Returns:
        Shapes (nodes, 1 + traits), its first column 1, and (nodes,), of sum 1.
    """
    x, w = np.polynomial.hermite_e.hermegauss(each)
    grid = np.stack(np.meshgrid(*[x] * traits, indexing="ij"), axis=-1).reshape(-1, traits)
    weights = np.stack(np.meshgrid(*[w / w.sum()] * traits, indexing="ij"), axis=-1)
    weight = weights.reshape(-1, traits).prod(axis=1)
    return np.hstack([np.ones((len(grid), 1)), grid]), weight


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Estimates less moments.

    Attributes:
        one: shape (chains, d).
        two: shape (chains, d, d).
        three: shape (chains, triples).
    """

    one: Floats
    two: Floats
    three: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Inverse variances, 0 where nothing is known.

    Attributes:
        one: shape (d,).
        two: shape (chains, d, d).
        three: shape (chains, triples).
    """

    one: Floats
    two: Floats
    three: Floats

    def likelihood(self, gaps: Gaps) -> Floats:
        """Logarithm, but for what the weights alone decide: shape (chains,)."""
        out = (self.one * np.square(gaps.one)).sum(axis=1)
        out += 0.5 * (self.two * np.square(gaps.two)).sum(axis=(1, 2))
        out += (self.three * np.square(gaps.three)).sum(axis=1)
        return np.asarray(-0.5 * out, np.float64)


class Mixtures:
    """One mixture a chain, next to the estimates of moments up to the third.

    Parameters have shape (chains, 1 + traits, d): fields a, then loadings b of each trait. Means
    given nodes have shape (chains, d, nodes).

    Attributes:
        d: attributes.
        seen, precision: shape (d,): first moments.
        seen_two, noise_two: shape (d, d): second moments and their variances, 1 where not known.
        known: shape (d, d): which of them are.
        pairs: rows and columns of those above the diagonal.
        noise_three: shape (triples,): variances of third moments.
    """

    def __init__(self, statistics: Statistics, traits: int, each: int) -> None:
        """Lay out what is known; `nodes` says which the grid is."""
        self._basis, self._weight = nodes(traits, each)
        self.d = d = statistics.means.size
        self.seen = statistics.means
        self.precision = np.minimum(statistics.mean_precision, MOST_PRECISE)
        precision = np.minimum(statistics.product_precision, MOST_PRECISE)
        self.known = (precision > 0) & ~np.eye(d, dtype=bool)
        self.noise_two = 1.0 / np.where(self.known, precision, 1.0)
        self.seen_two = np.where(self.known, statistics.products, 0.0)
        self.pairs = np.nonzero(np.triu(self.known, 1))
        told = {s: t for s, t in sorted(statistics.higher.items()) if len(s) == 3 and t[1] > 0}
        seen, precision = np.array(list(told.values()), np.float64).reshape(-1, 2).T
        self._seen_three = seen
        self.noise_three = 1.0 / np.minimum(precision, MOST_PRECISE)
        self._triples = np.array(list(told), np.intp).reshape(-1, 3).T
        self._lay_out_triples()

    def _lay_out_triples(self) -> None:
        """All pairs, and the three cells of each triple in a matrix of attributes by pairs."""
        self._j, self._k = np.triu_indices(self.d, 1)
        number = np.zeros((self.d, self.d), np.intp)
        number[self._j, self._k] = number[self._k, self._j] = np.arange(self._j.size)
        i, j, k = self._triples
        across = np.concatenate([number[j, k], number[i, k], number[i, j]])
        self._places = self._triples.ravel() * self._j.size + across

    def given_nodes(self, parameters: Floats) -> Floats:
        """Means of attributes given nodes."""
        return np.asarray(np.tanh(parameters.transpose(0, 2, 1) @ self._basis.T), np.float64)

    def first_two(self, means: Floats) -> tuple[Floats, Floats]:
        """First and second moments: shapes (chains, d) and (chains, d, d)."""
        weighted = means * self._weight
        return weighted.sum(axis=2), weighted @ means.transpose(0, 2, 1)

    def gaps(self, means: Floats) -> Gaps:
        """Estimates less moments; cost O(chains d^2 nodes), d times that with triples."""
        return self._gaps_and_products(means)[0]

    def _gaps_and_products(self, means: Floats) -> tuple[Gaps, Singles | None]:
        """The same, and products of pairs given nodes where there are triples."""
        one, two = self.first_two(means)
        three, products = np.zeros((len(means), 0)), None
        if self.noise_three.size:
            three, products = self._third(means.astype(np.float32))
        gaps = Gaps(self.seen - one, self.seen_two - two, self._seen_three - three)
        return gaps, products

    def _third(self, means: Singles) -> tuple[Floats, Singles]:
        """Third moments of the triples, and products of pairs given nodes: (chains, pairs, nodes).

        In single precision: how far triples are from traits is never known as well.
        """
        products = means.take(self._j, axis=1)
        products *= means.take(self._k, axis=1)
        moments = (means * self._weight.astype(np.float32)) @ products.transpose(0, 2, 1)
        own = self._places[: self.noise_three.size]
        return moments.reshape(len(means), -1).take(own, axis=1).astype(np.float64), products

    def density(self, parameters: Floats, weights: Weights) -> tuple[Floats, Floats, Floats]:
        """Log likelihood (chains,), its derivatives by the parameters, and means given nodes."""
        means = self.given_nodes(parameters)
        gaps, products = self._gaps_and_products(means)
        pull = np.zeros_like(means)
        if products is not None:
            laid = np.zeros((len(means), self.d * self._j.size), np.float32)
            laid[:, self._places] = np.tile(weights.three * gaps.three, 3)
            pull += laid.reshape(len(means), self.d, -1) @ products
        pull += (weights.two * gaps.two) @ means
        pull += (weights.one * gaps.one)[:, :, None]
        pull *= (1.0 - np.square(means)) * self._weight
        return weights.likelihood(gaps), (pull @ self._basis).transpose(0, 2, 1), means

    def curvature(self, parameters: Floats, weights: Weights) -> Floats:
        """Expected curvature of minus the log likelihood, mean over chains.

        A pair has derivatives by the parameters of two attributes alone, a triple by those of
        three. Shape (parameters, parameters), in the order of a chain's parameters. Cost:
        O(chains (d^2 + triples) traits (traits + nodes)).
        """
        means = self.given_nodes(parameters)
        bend = (1.0 - np.square(means)) * self._weight
        turned = bend[:, None] * self._basis.T[:, None]  # (chains, 1 + traits, d, nodes)
        one = turned.sum(axis=3)
        two = turned @ means.transpose(0, 2, 1)[:, None]  # of theta_ij by what is attribute i's
        weighted = weights.two[:, None] * two
        blocks = (weighted[:, :, None] * two.transpose(0, 1, 3, 2)[:, None]).sum(axis=0)
        own = np.einsum("cpij,crij->pri", weighted, two)
        own += np.einsum("i,cpi,cri->pri", weights.one, one, one)
        every = np.arange(self.d)
        blocks[:, :, every, every] += own
        if self.noise_three.size:
            blocks += self._of_triples(turned, means, weights.three)
        size = parameters[0].size
        return np.asarray(blocks.transpose(0, 2, 1, 3).reshape(size, size) / len(means))

    def _of_triples(self, turned: Floats, means: Floats, weight: Floats) -> Floats:
        """What triples add to the curvature: (1 + traits, 1 + traits, d, d), sum over chains."""
        slopes = []
        for turn in range(3):
            i, j, k = np.roll(self._triples, turn, axis=0)
            slopes.append((turned[:, :, i] * (means[:, j] * means[:, k])[:, None]).sum(axis=3))
        width, d = turned.shape[1], self.d
        block = np.arange(width * width)[:, None] * d * d
        total = np.zeros(width * width * d * d)
        for a, b in product(range(3), repeat=2):
            values = np.einsum("cs,cps,crs->prs", weight, slopes[a], slopes[b])
            places = (block + self._triples[-a] * d + self._triples[-b]).ravel()
            total += np.bincount(places, values.ravel(), total.size)
        return total.reshape(width, width, d, d)
