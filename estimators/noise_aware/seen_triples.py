"""What estimates of third moments say about the means and loadings of binary attributes.

In `shared` second moments are ``M_ij = m_i m_j + c_ij``, with ``c_ij = s_i s_j u_i · u_j`` but for
residuals. Without third cumulants they decide the third moments,

    M_ijk = m_i m_j m_k + m_i c_jk + m_j c_ik + m_k c_ij,
    estimate of M_ijk ~ N(M_ijk, v_ijk + delta^2),

with v_ijk the known noise and delta, how far triples are from that (cumulants, residuals of pairs),
one more size: half-normal, of the size that `loglinear` takes, drawn from a grid. In the
conditionals of attribute i the prediction is linear in its mean and deviation, and in its loadings,

    M_ijk = m_i M_jk + s_i u_i · (m_j s_k u_k + m_k s_j u_j),

so triples add rows to the regressions that pairs make, where straight is m_j and turned s_j u_j:
one sum of weighted products serves both conditionals. There delta counts as an error that all
triples of an attribute have in common (cumulants are: one cause moves them all), as many times its
square as there are such triples: however many they are, what they add is no surer than delta. With
independent errors, attributes known well had up to a fifth more error. Where most bits are 0, means
are near 1, and a triple says nearly as much about each of its pairs as a pair's own estimate does.
What a triple says about residuals of its pairs is left aside: solving for these with both orders
left errors as they were on data made for development.

Cost of one sweep: O(chains · triples · rank^2) with a dozen array operations per attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.chances import choose
from estimators.noise_aware.loglinear import BEYOND_SIZE

if TYPE_CHECKING:
    from estimators.noise_aware.statistics import Statistics

Floats = NDArray[np.float64]

_DELTA = np.exp(np.linspace(np.log(2e-3), np.log(0.3), 24))
_DELTA_PRIOR = np.log(_DELTA) - 0.5 * np.square(_DELTA / BEYOND_SIZE)


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """How moments of one attribute move with it: ``m straight + s u · turned``.

    Of a pair straight is the mean of the other attribute, and turned its s u.

    Attributes:
        products: shape (chains, 2 + rank, 2 + rank): sums over its triples and pairs of weighted
            products of straight, of turned and of the estimates, in this order.
    """

    products: Floats

    def of_loadings(self, m: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Normal equations of the loadings given mean and deviation, shape (chains, 1) both.

        Returns:
            Matrix (chains, 1, rank, rank) and right side (chains, 1, rank).
        """
        turned = self.products[:, None, 1:-1]
        right = s[:, :, None] * (turned[..., -1] - m[:, :, None] * turned[..., 0])
        return np.square(s)[:, :, None, None] * turned[..., 1:-1], right

    def of_mean(self, u: Floats) -> Floats:
        """The same of what m and s are multiplied by, and of the estimates; see `form`.

        Args:
            u: the attribute's loadings, shape (chains, rank).

        Returns:
            Shape (chains, 3, 3); rows and columns are m, s and the estimates.
        """
        rows = np.zeros((len(u), 3, 2 + u.shape[1]))
        rows[:, 0, 0] = rows[:, 2, -1] = 1.0
        rows[:, 1, 1:-1] = u
        return rows @ self.products @ rows.transpose(0, 2, 1)


class SeenTriples:
    """All triples that were estimated; states are those of `shared`'s chains.

    Attributes:
        members: shape (triples, 3), ascending.
        delta: shape (chains,).
        weight: shape (chains, triples): inverse variances, delta counted as noise that all triples
            of an attribute share.
    """

    def __init__(self, statistics: Statistics, chains: int) -> None:
        """Lay out the triples of each attribute.

        Args:
            statistics: of binary attributes, with third orders.
            chains: how many.
        """
        order = sorted(
            t for t, (_, known) in statistics.higher.items() if len(t) == 3 and known > 0
        )
        self.members = np.array(order, np.intp).reshape(-1, 3)
        self._columns = np.ascontiguousarray(self.members.T)
        (a, b, c), size = self._columns, statistics.means.size
        self._others = np.stack([b * size + c, a * size + c, a * size + b])
        seen, precision = statistics.of(order)
        self._seen = np.tile(seen, (chains, 1))
        self._own = []
        for i in range(statistics.means.size):
            rows, place = np.nonzero(self.members == i)
            others = np.stack([self.members[rows, (place + step) % 3] for step in (1, 2)])
            self._own.append((rows, others, self._seen[:, rows]))
        own = precision * np.square(_DELTA)[:, None]
        self._by_delta = precision / (1.0 + own)
        alike = max(3.0 * len(order) / statistics.means.size, 1.0)  # triples of an attribute
        self._weights = precision / (1.0 + alike * own)
        self._delta_score = 0.5 * np.log(self._by_delta).sum(axis=1) + _DELTA_PRIOR
        self._set_delta(np.full(chains, np.searchsorted(_DELTA, BEYOND_SIZE)))

    def _set_delta(self, places: NDArray[np.intp]) -> None:
        """Each chain's delta is the one at its place in the grid."""
        self.delta, self.weight = _DELTA[places], self._weights[places]

    def slope(self, i: int, means: Floats, levers: Floats, pairs: tuple[Floats, Floats]) -> Slope:
        """How what was estimated depends on attribute i, the others held.

        Args:
            i: attribute.
            means: m, shape (chains, attributes).
            levers: s u, shape (chains, rank, attributes).
            pairs: estimates of its pairs, shape (attributes,), and their inverse variances, shape
                (chains, attributes), 0 where there is none.
        """
        rows, others, seen = self._own[i]
        end = rows.size
        m, (left, right) = means.take(others, 1), levers.take(others, 2).transpose(2, 0, 1, 3)
        parts = np.empty((len(m), 2 + levers.shape[1], end + means.shape[1]))
        parts[:, 0, :end] = m[:, 0] * m[:, 1] + (left * right).sum(axis=1)
        parts[:, 1:-1, :end] = m[:, 1, None] * left + m[:, 0, None] * right
        parts[:, -1, :end] = seen
        parts[:, 0, end:], parts[:, 1:-1, end:], parts[:, -1, end:] = means, levers, pairs[0]
        weighted = parts * np.hstack([self.weight.take(rows, 1), pairs[1]])[:, None]
        return Slope(weighted @ parts.transpose(0, 2, 1))

    def gap(self, means: Floats, products: Floats) -> Floats:
        """Estimates less what first and second moments foretell: shape (chains, triples)."""
        m_a, m_b, m_c = means.take(self._columns, 1).transpose(1, 0, 2)
        flat = products.reshape(len(products), -1)
        bc, ac, ab = flat.take(self._others, 1).transpose(1, 0, 2)
        foretold = m_a * bc + m_b * ac + m_c * ab
        return np.asarray(self._seen - foretold + 2.0 * m_a * m_b * m_c)

    def moved(self, means: Floats, levers: Floats) -> Floats:
        """How third moments move with one factor, of levers (chains, attributes), all alike."""
        m_a, m_b, m_c = means.take(self._columns, 1).transpose(1, 0, 2)
        l_a, l_b, l_c = levers.take(self._columns, 1).transpose(1, 0, 2)
        return np.asarray(m_a * l_b * l_c + m_b * l_a * l_c + m_c * l_a * l_b, np.float64)

    def draw_delta(self, gap: Floats, random: np.random.Generator) -> None:
        """Given what is left of the estimates, (chains, triples): exact on the grid."""
        left = np.square(gap) @ self._by_delta.T
        self._set_delta(choose(random, self._delta_score - 0.5 * left))
