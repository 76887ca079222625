"""The error to expect of binary attributes that are all alike, before anything is known of them.

In a world where every attribute has mean m and none depends on another, a small change of the
log-linear weights lambda_T moves the moment theta_S by

    J(S, T) = m^|S xor T| - m^(|S| + |T|),

less m times what the weights of single attributes give back (`loglinear`: pairs hardly move
margins). Where m is not 0, pairs and triples speak about single attributes too, and the more, the
further m is from 0. With the model's prior covariance V and precisions P of the moments that are
read, the moments' posterior covariance is ``J (V^-1 + J'PJ)^-1 J'``. All three matrices depend on
|S|, |T| and |S and T| alone. So they split along the irreducible parts of the symmetric group: part
j has dimension C(d, j) - C(d, j - 1) and in it each matrix is a block of one row and column an
order (the Johnson scheme). Whatever d is, blocks have at most a handful of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Floats = NDArray[np.float64]

CENTRE, FIELD = 1.0, 0.7
"""Prior deviations of what the fields of all attributes share and of the rest of each; `loglinear`
has the same first, and draws the second about its median of 0.5."""


@dataclass(frozen=True, slots=True)
class World:
    """One guess at how things are.

    Attributes:
        attributes: how many.
        mean: of every attribute's sign, between -1 and 1.
        sizes: prior deviations of lambda of order 2, 3 and so on; higher orders are not modelled.
        top: highest order of a moment that is read or asked for.
    """

    attributes: int
    mean: float
    sizes: tuple[float, ...]
    top: int


def variances(world: World, precision: Floats) -> Floats:
    """Posterior variance of a moment, summed over all moments of an order.

    Args:
        world: what is assumed.
        precision: shape (designs, orders read): inverse noise variance of every moment of an order.

    Returns:
        Shape (designs, top), for orders 1 to top.

    Cost: O(designs top^4).
    """
    total: Floats = np.zeros((len(precision), world.top))
    for part in _parts(world):
        read = precision[:, part.orders[part.orders <= precision.shape[1]] - 1]
        count = read.shape[1]
        pull = part.back[:, :count] * read[:, None, :] @ part.slope[:count]
        spread = np.linalg.solve(part.inverse_prior + pull, part.back[None])
        own = np.einsum("om,dmo->do", part.slope, spread)
        total[:, part.orders - 1] += part.dimension * own
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One irreducible part: rows are orders of moments, columns those of weights."""

    dimension: int
    orders: NDArray[np.intp]
    slope: Floats
    back: Floats
    inverse_prior: Floats


@lru_cache(maxsize=1024)
def _parts(world: World) -> tuple[_Part, ...]:
    d, m = world.attributes, world.mean
    highest = 1 + len(world.sizes)

    def slope(s: int, t: int, both: int) -> float:
        moved = m ** (s + t - 2 * both) - m ** (s + t)
        if t == 2:  # what the single attributes' weights give back
            moved -= m * both * (m ** (s - 1) - m ** (s + 1))
        return float(moved)

    def prior(s: int, t: int, both: int) -> float:
        if s != t:
            return 0.0
        if s == 1:
            return CENTRE**2 + FIELD**2 * both
        square = world.sizes[s - 2] ** 2
        if s == 2:  # half a pair's own, half of what its attributes and all pairs share
            return square * (0.5 * (both == 2) + 0.125 * both + 0.25)
        return square * (both == s)

    out = []
    for j in range(min(highest, d // 2) + 1):
        rows = [o for o in range(max(j, 1), world.top + 1) if o <= d - j]
        columns = [o for o in rows if o <= highest]
        if not columns:
            continue
        dimension = comb(d, j) - (comb(d, j - 1) if j else 0)
        back = _block(lambda t, s, both: slope(s, t, both), d, j, columns, rows)
        inverse = np.asarray(np.linalg.inv(_block(prior, d, j, columns, columns)), np.float64)
        found = _block(slope, d, j, rows, columns)
        out.append(_Part(dimension, np.array(rows), found, back, inverse))
    return tuple(out)


def _block(
    entry: Callable[[int, int, int], float],
    d: int,
    j: int,
    rows: Sequence[int],
    columns: Sequence[int],
) -> Floats:
    """A matrix over attribute sets, restricted to part j.

    The part's vector of order o gives a set the coefficient of its attributes in the product of
    ``x_1 - x_2``, ``x_3 - x_4`` and so on, j factors, times the sum of all products of o - j other
    attributes. Read off at the set of the first of each pair and o - j others.
    """
    out = np.zeros((len(rows), len(columns)))
    for a, s in enumerate(rows):
        for b, t in enumerate(columns):
            rest = d - 2 * j - (s - j)
            for kept in range(j + 1):
                sign = (-1) ** (j - kept) * comb(j, kept)
                for shared in range(max(0, t - j - rest), min(s, t) - j + 1):
                    ways = comb(s - j, shared) * comb(rest, t - j - shared)
                    out[a, b] += sign * ways * entry(s, t, kept + shared)
    return out
