"""The expected error of a design for binary attributes that are all alike, before collection.

About attributes that are independent and all have mean m, moments are linear in small changes of
the log-linear weights. All matrices depend only on the sizes of two sets S, T and of their common
part. So they split into small blocks along the irreducible representations of the symmetric group,
and the cost does not depend on the number of attributes. See noise-aware.md, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.priors import DESIGN_FIELD, FIELD_CENTRE


@dataclass(frozen=True, slots=True)
class Scenario:
    """One assumption about the attributes."""

    attributes: int  # Number of attributes
    mean: float  # Mean of the sign of every attribute, between -1 and 1
    # Prior deviations of log-linear weights of order 2, 3 and so on; others are not modelled.
    scales: tuple[float, ...]
    top: int  # Highest order of a moment that is read or of interest

    def slope(self, s: int, t: int, both: int) -> float:
        """Return the derivative of a moment of order s by a weight of order t.

        ``both`` is the number of attributes that the two sets share.
        """
        m = self.mean
        moved = m ** (s + t - 2 * both) - m ** (s + t)
        if t == 2:  # single attributes' weights compensate: pairs hardly move margins
            moved -= m * both * (m ** (s - 1) - m ** (s + 1))
        return float(moved)

    def prior(self, s: int, t: int, both: int) -> float:
        """Return the prior covariance of two weights of these orders; ``both`` as in `slope`."""
        if s != t:
            return 0.0
        if s == 1:
            return FIELD_CENTRE**2 + DESIGN_FIELD**2 * both
        square = self.scales[s - 2] ** 2
        if s == 2:  # half a pair's own, half common to its attributes or all pairs
            return square * (0.5 * (both == 2) + 0.125 * both + 0.25)
        return square * (both == s)


def variances(scenario: Scenario, precision: Floats) -> Floats:
    """Return the posterior variances of all moments, summed by order 1 to top: (designs, top).

    ``precision``, shape (designs, orders read), is the inverse noise variance of every moment of an
    order. Cost: O(designs top^4).
    """
    d, highest = scenario.attributes, 1 + len(scenario.scales)
    total: Floats = np.zeros((len(precision), scenario.top))
    for j in range(min(highest, d // 2) + 1):
        # One irreducible part: rows are orders of moments, columns those of weights.
        rows = [o for o in range(max(j, 1), scenario.top + 1) if o <= d - j]
        columns = [o for o in rows if o <= highest]
        if not columns:
            continue
        slope = _block(scenario.slope, d, j, rows, columns)
        back = _block(lambda t, s, both: scenario.slope(s, t, both), d, j, columns, rows)
        inverse_prior = np.linalg.inv(_block(scenario.prior, d, j, columns, columns))
        orders = np.array(rows)
        read = precision[:, orders[orders <= precision.shape[1]] - 1]
        count = read.shape[1]
        pull = back[:, :count] * read[:, None, :] @ slope[:count]
        spread = np.linalg.solve(inverse_prior + pull, back[None])
        dimension = comb(d, j) - (comb(d, j - 1) if j else 0)
        total[:, orders - 1] += dimension * np.einsum("om,dmo->do", slope, spread)
    return total


def _block(
    entry: Callable[[int, int, int], float],
    d: int,
    j: int,
    rows: Sequence[int],
    columns: Sequence[int],
) -> Floats:
    """Return a matrix over attribute sets, restricted to irreducible part j: (rows, columns).

    ``entry`` gives its values by the sizes of two sets and of their common part. The part's vector
    of order o has the coefficients of ``(x_1 - x_2) (x_3 - x_4) ...``, of j factors, times the sum
    of all products of o - j other attributes.
    """
    out = np.zeros((len(rows), len(columns)))
    for a, s in enumerate(rows):
        for b, t in enumerate(columns):
            rest = d - 2 * j - (s - j)
            for kept in range(j + 1):
                sign = (-1) ** (j - kept) * comb(j, kept)
                for common in range(max(0, t - j - rest), min(s, t) - j + 1):
                    ways = comb(s - j, common) * comb(rest, t - j - common)
                    out[a, b] += sign * ways * entry(s, t, kept + common)
    return out
