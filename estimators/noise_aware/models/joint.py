"""The joint distribution of up to 16 binary attributes, from draws of the log-linear model.

Of up to `SMALL` attributes it has interactions of up to four, of more attributes pairs alone. But
what is known of triples is read there too: mostly it is what pairs foretell, and so says something
about pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.statistics import MOST_PRECISE
from estimators.noise_aware.input.walsh import sets_up_to
from estimators.noise_aware.models.loglinear import LogLinear
from estimators.noise_aware.models.parities import PairParities, Parities
from estimators.noise_aware.sampling.hamiltonian import draw
from estimators.numerics.hadamard import transform

if TYPE_CHECKING:
    from estimators.domain import Attributes
    from estimators.noise_aware.input.statistics import Statistics

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MAX_ATTRIBUTES = 16
SMALL = 9
MAX_ORDER = 4
"""Of up to `SMALL` attributes."""

READ_ORDER = 3
"""Highest order of the estimates that are read of more than `SMALL` attributes."""

MAX_VIEW = 3
"""Attributes of a view beyond which too much of what it says would be left aside."""

MAX_CHAINS = 8
CELLS = 1 << 18
"""Cells of all chains' tables together."""

WARM_UP, SWEEPS = 40, 60

_KEPT_CELLS = 1 << 22
_SEED = 20181015


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Posterior of the joint distribution; a table is a matrix as in `parities`.

    Attributes:
        table: shape (rows, columns): its mean.
        drawn: shape (draws, rows, columns).
        members: sets of up to three attributes at least.
        coefficients: shape (sets,): theta of the mean table.
        freedom: shape (sets,): derivative of each coefficient by its own estimate.
    """

    table: Floats
    drawn: Singles
    members: tuple[Attributes, ...]
    coefficients: Floats
    freedom: Floats

    def marginal(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Table and variance of each cell: shape (2,) * attributes both.

        Cost: O(draws 2^(d + k/2)), under 1 ms for 12 attributes.
        """
        half, rest = (size.bit_length() - 1 for size in self.table.shape)
        rows = _adding(half, tuple(i for i in attributes if i < half))
        columns = _adding(rest, tuple(i - half for i in attributes if i >= half)).T
        shape = (2,) * len(attributes)
        drawn = np.asarray(rows @ self.drawn @ columns, np.float64)
        return (rows @ self.table @ columns).reshape(shape), drawn.var(axis=0).reshape(shape)


def fit(statistics: Statistics) -> Joint:
    """Model of all attributes, which are binary and at most `MAX_ATTRIBUTES`.

    Cost: some 1,800 tables of each chain: 0.3 s for 8 attributes and pairs, 1 s with sets of four,
    4 s for 16 attributes, 5 s where triples are read.
    """
    d = statistics.means.size
    highest = MAX_ORDER if d <= SMALL else 2
    order = min(highest, max([2, *map(len, statistics.higher)]), d)
    chains = min(CELLS >> d, MAX_CHAINS)
    parities = PairParities(d) if order == 2 else Parities(d, order)
    observed = Parities(d, READ_ORDER) if d > SMALL and _knows_triples(statistics) else parities
    seen, precision = statistics.of(observed.sets.members)
    precision = np.minimum(precision, MOST_PRECISE)
    random = np.random.default_rng(_SEED)
    model = LogLinear(parities, seen, precision, chains, random, observed)
    tables = np.concatenate(list(draw(model, random, WARM_UP, SWEEPS)))
    table = tables.mean(axis=0, dtype=np.float64)
    table /= table.sum()
    sets = sets_up_to(d, min(max(order, 3), d))
    freedom = np.zeros(len(sets.members))
    spread = observed.moments(tables).var(axis=0)
    # Above 1 is the draws' own noise. With delta a triple would move its own coefficient less.
    freedom[: seen.size] = np.minimum(spread * precision, 1.0)
    return Joint(
        table,
        tables[:: max(tables.size // _KEPT_CELLS, 1)],
        sets.members,
        transform(table.ravel())[sets.index],
        freedom,
    )


def _knows_triples(statistics: Statistics) -> bool:
    return any(len(s) == 3 and precision > 0 for s, (_, precision) in statistics.higher.items())


@lru_cache(maxsize=1024)
def _adding(d: int, kept: Attributes) -> Singles:
    """Ones where a cell over ``kept`` holds a cell over d attributes: (cells, 2^d)."""
    cells = np.arange(1 << d)
    into = np.zeros(1 << d, np.intp)
    for i in kept:
        into = 2 * into + ((cells >> (d - 1 - i)) & 1)
    out = np.zeros((1 << len(kept), 1 << d), np.float32)
    out[into, cells] = 1.0
    return out
