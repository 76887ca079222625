"""The joint distribution of up to 16 binary attributes, from draws of the log-linear model.

Domains of up to `SMALL` attributes have interactions of up to four attributes, larger ones pairs
only. Estimates of triples are read in both: pairs mostly predict them, so they say something about
pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats, Singles
from calmstream.estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics
from calmstream.estimators.noise_aware.models.loglinear import LogLinear
from calmstream.estimators.noise_aware.models.pair_tables import PairTables
from calmstream.estimators.noise_aware.models.parities import Parities
from calmstream.estimators.numerics.contraction import adding
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.hamiltonian import draw
from calmstream.estimators.numerics.subsets import sets_up_to

MAX_ATTRIBUTES = 16
"""Maximum number of attributes: with 65,536 cells a table takes most of the time of a fit."""

SMALL, MAX_ORDER = 9, 4
"""Up to `SMALL` attributes, interactions of up to `MAX_ORDER`: 255 weights for 512 cells."""

READ_ORDER = 3
"""Highest order of the estimates that are read for more than `SMALL` attributes."""

SWEEPS, SWEEPS_LARGE = (25, 50), (22, 44)
"""Dropped and kept sweeps of each chain, up to `SMALL` attributes and beyond; a sweep computes some
6 tables."""

MOST_KEPT = 1 << 22
"""Approximate number of cells of all draws that are kept as tables: 16 MB."""


Moments = tuple[Floats, Floats]
"""Posterior means and variances of the moments of one order."""


@dataclass(frozen=True, eq=False)
class Joint:
    """Posterior of the joint distribution; a table is a matrix as in `parities`."""

    table: Floats  # (rows, columns): posterior mean
    moments: Floats  # (draws, sets): moments of every draw, of the first sets of `members`
    drawn: Singles  # (some draws, rows, columns)
    members: tuple[Attributes, ...]  # All sets of up to three attributes or more
    coefficients: Floats  # (sets,): moments of the mean table
    sensitivity: Floats  # (sets,): derivative of each coefficient by its own estimate
    misses_orders: bool = True  # See `WholeTable`

    def marginal(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and the variance of each cell: shape (2,) * attributes both."""
        table, drawn = self.drawn_of(attributes)
        return table, drawn.var(axis=0)

    def drawn_of(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its posterior draws: shapes (2,) * attributes, (draws, *that).

        Cost: O(draws) for as many attributes as `moments` reaches, else O(draws 2^(d + k/2)).
        """
        half, rest = (size.bit_length() - 1 for size in self.table.shape)
        rows = adding((2,) * half, tuple(i for i in attributes if i < half))
        columns = adding((2,) * rest, tuple(i - half for i in attributes if i >= half)).T
        table = (rows @ self.table @ columns).reshape((2,) * len(attributes))
        if len(attributes) > len(self.members[self.moments.shape[1] - 1]):
            drawn = np.asarray(rows @ self.drawn @ columns, np.float64)
        else:
            sets = sets_up_to(len(attributes), len(attributes))
            drawn = np.ones((len(self.moments), table.size))
            places = [self.position[tuple(attributes[a] for a in own)] for own in sets.members]
            drawn[:, sets.index] = self.moments[:, places]
            drawn = transform(drawn) / table.size
        return table, drawn.reshape(-1, *table.shape)

    def first_two(self) -> tuple[Moments, Moments]:
        """Return the first and the second moments; see `WholeTable`."""
        d = self.table.size.bit_length() - 1
        values, variance = self.coefficients, self.moments.var(axis=0)
        two, spread = np.zeros((d, d)), np.zeros((d, d))
        above = np.triu_indices(d, 1)  # the order of the sets of two attributes
        pairs = slice(d, d + above[0].size)
        two[above], spread[above] = values[pairs], variance[pairs]
        return (values[:d], variance[:d]), (two + two.T, spread + spread.T)

    @cached_property
    def position(self) -> dict[Attributes, int]:
        """Column of each set in `moments`."""
        return {own: place for place, own in enumerate(self.members[: self.moments.shape[1]])}


def fit(statistics: Statistics) -> Joint:
    """Fit the log-linear model to at most `MAX_ATTRIBUTES` binary attributes.

    Cost: some 400 tables of each chain.
    """
    d = statistics.means.size
    highest = MAX_ORDER if d <= SMALL else 2
    order = min(highest, max([2, *map(len, statistics.higher)]), d)
    chains = min((1 << 18) >> d, 8)  # few where tables are large
    parities = PairTables(d) if d > SMALL else Parities(d, order)
    triples = any(len(s) == 3 and known > 0 for s, (_, known) in statistics.higher.items())
    observed = Parities(d, READ_ORDER) if d > SMALL and triples else parities
    estimates, precision = statistics.of(observed.sets.members)
    precision = np.minimum(precision, MOST_PRECISE)
    random = np.random.default_rng(20181015)  # fixed: equal tallies give equal answers
    model = LogLinear(parities, estimates, precision, chains, random, observed)
    total, moments, kept = np.zeros(1), [], []
    warm_up, sweeps = SWEEPS if d <= SMALL else SWEEPS_LARGE
    step = max((sweeps * chains << d) // MOST_KEPT, 1)
    for number, compact in enumerate(draw(model, random, warm_up, sweeps)):
        tables = parities.expand(compact)
        total = total + tables.sum(axis=0)
        moments.append(observed.moments(tables))
        if number % step == 0:
            kept.append(tables)
    table, drawn = total / total.sum(), np.concatenate(moments)
    sets = sets_up_to(d, min(max(order, 3), d))
    sensitivity = np.zeros(len(sets.members))
    # Values above 1 are noise of the draws. Delta is ignored here: it would lower those of triples.
    sensitivity[: estimates.size] = np.minimum(drawn.var(axis=0) * precision, 1.0)
    coefficients = transform(table.ravel())[sets.index]
    return Joint(table, drawn, np.concatenate(kept), sets.members, coefficients, sensitivity)
