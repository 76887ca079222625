"""Tables from coefficients: the inverse Fourier transform over a product of cyclic groups.

A coefficient is ``theta_b = E exp(2 pi i sum_j b_j x_j / r_j)``. A view with m inputs reports an
integer t; harmonic h of its distribution *is* the coefficient of ``h`` times the view's factors. A
parity has one, theta_b = f(0) - f(1), the Hadamard coefficient. A table over A is the sum of all
coefficients that touch attributes of A only. Under parities categorical attributes stand for the
bits of their codes, and patterns that are no code are left out.

Sources: Barak et al. 2007; Cormode, Kulkarni and Srivastava, SIGMOD 2018 (InpHT, MargHT, and the
conjecture for categorical attributes). Formulas: docs/methods/linear-methods.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import ClassVar

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_COVARIANCE_CELLS
from calmstream.estimators.numerics.hadamard import power_of_two, transform
from calmstream.estimators.papers.cormode.linear import (
    Estimate,
    LinearModel,
    precisions,
    require_at_most,
)
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import CountedView, counted_views
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

Key = tuple[Attributes, tuple[int, ...]]
"""A coefficient: the attributes it touches and its non-zero factors."""

Way = tuple[int, int]  # one estimate of a coefficient: a view's number, a harmonic of its table
Share = tuple[Key, int, float]  # coefficient, harmonic of a view, weight among all its estimates
KEPT_CELLS = 256  # of a table whose angles are cached for tables of the same shape


def harmonics(view: View, domain: Domain) -> list[tuple[int, Key]]:
    if view.kind == "parity":
        return [(1, (view.attributes, view.factors))]
    found = []
    for h in range(1, view.modulus):
        factors = zip(view.attributes, view.factors, strict=True)
        pairs = [(i, h * a % domain.cardinalities[i]) for i, a in factors]
        kept = [(i, b) for i, b in pairs if b]
        if kept:
            found.append((h, (tuple(i for i, _ in kept), tuple(b for _, b in kept))))
    return found


@lru_cache(maxsize=1 << 14)
def _turns(
    shape: tuple[int, ...], axes: tuple[int, ...], factors: tuple[int, ...], binary: bool
) -> Floats:
    """Return a character's angle at every cell of a table, in turns (cached by shape)."""
    codes = np.indices(shape).reshape(len(shape), -1)
    turns = np.zeros(codes.shape[1])
    for axis, b in zip(axes, factors, strict=True):
        if binary:
            turns += (np.bitwise_count(codes[axis] & b) & 1) / 2.0
        else:
            turns += b * codes[axis] % shape[axis] / shape[axis]
    return turns % 1.0


def _wave(turns: Floats, harmonic: int, inputs: int) -> Floats:
    """Return cos of the difference in angle of every cell and input t of a view: [cell, t]."""
    if inputs == 2:
        # Parities: angles are 0 or half a turn, so this is exact and needs no cosine.
        sign = 1.0 - 4.0 * turns
        return np.stack([sign, -sign], axis=1)
    wave = harmonic * np.arange(inputs) / inputs
    return np.cos(2.0 * np.pi * (wave - turns[:, None]))


class CoefficientModel(LinearModel):
    """A model that answers by the inverse transform of the estimated coefficients.

    A view serves only its owner and the owner's subsets, or all marginals without ``owners``.
    """

    def __init__(
        self,
        plan: Plan,
        counted: Sequence[CountedView],
        owners: Sequence[Attributes] | None = None,
    ) -> None:
        super().__init__(plan.domain)
        self._k, self._method = plan.k, plan.method
        self._views = [one.view for one in counted]
        self._owners = None if owners is None else [frozenset(o) for o in owners]
        # Tables of parities are recovered over bit patterns.
        self._binary = self._views[0].kind == "parity"
        self._reports = np.array([one.n for one in counted])
        self._weight = self._reports * precisions([one.mechanism for one in counted])
        self._counted = counted
        self._ways: dict[Attributes, dict[Key, list[Way]]] = defaultdict(dict)
        for number, view in enumerate(self._views):
            for harmonic, key in harmonics(view, plan.domain):
                self._ways[key[0]].setdefault(key, []).append((number, harmonic))

    def _widths(self, attributes: Attributes) -> list[int]:
        """Return each attribute's number of labels or, for parities, of bit patterns."""
        shape = self._domain.shape(attributes)
        return [power_of_two(r) if self._binary else r for r in shape]

    def _scale(self, attributes: Attributes) -> float:
        return 1.0 / prod(self._widths(attributes))

    def _phase(self, key: Key, attributes: Attributes) -> Floats:
        axes = tuple(attributes.index(i) for i in key[0])
        shape = self._domain.shape(attributes)
        # Small tables are alike by the thousand; the angles of large ones are not worth keeping.
        turns = _turns if prod(shape) <= KEPT_CELLS else _turns.__wrapped__
        return turns(shape, axes, key[1], self._binary)

    def _allowed(self, attributes: Attributes) -> Iterator[tuple[Key, list[Way]]]:
        """Yield the coefficients of a table, except the constant, and their estimates, if any."""
        wanted, owners = frozenset(attributes), self._owners
        for size in range(1, len(attributes) + 1):
            for subset in combinations(attributes, size):
                collected, widths = self._ways.get(subset, {}), self._widths(subset)
                for key, ways in collected.items():
                    yield key, [w for w in ways if owners is None or wanted <= owners[w[0]]]
                if len(collected) < prod(r - 1 for r in widths):  # a plan may lack some views
                    keys = ((subset, b) for b in product(*(range(1, r) for r in widths)))
                    yield from ((key, []) for key in keys if key not in collected)

    def _shares(self, attributes: Attributes) -> tuple[dict[int, list[Share]], list[Key]]:
        """Return each view's weighted harmonics for a table, and coefficients without reports."""
        shares: dict[int, list[Share]] = defaultdict(list)
        unknown = []
        for key, ways in self._allowed(attributes):
            total = sum(float(self._weight[view]) for view, _ in ways)
            if total == 0.0:
                unknown.append(key)
                continue
            for view, harmonic in ways:
                if (weight := float(self._weight[view])) > 0.0:
                    shares[view].append((key, harmonic, weight / total))
        return shares, unknown

    def _operator(self, view: int, parts: Sequence[Share], attributes: Attributes) -> Floats:
        """Return the matrix from a view's table to the cells, without scale: shape (cells, m)."""
        inputs = self._views[view].cells(self._domain)
        operator = np.zeros((self._domain.size(attributes), inputs))
        for key, harmonic, share in parts:
            operator += share * _wave(self._phase(key, attributes), harmonic, inputs)
        return operator

    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the raw table, which need not sum to 1 where bit patterns are no code.

        A coefficient without reports, or of no view, counts as 0 with variance 1, its largest
        possible squared error.
        """
        require_at_most(self._k, attributes, self._domain, self._method)
        cells = self._domain.size(attributes)
        if not self._reports.any():
            return Estimate(np.full(cells, 1.0 / cells), np.zeros(cells), 0)
        shares, unknown = self._shares(attributes)
        reports = int(sum(self._reports[view] for view in shares))
        if self._binary:
            return Estimate(*self._parity_table(attributes, shares, len(unknown)), reports)
        scale = self._scale(attributes)
        total, spread = np.ones(cells), np.full(cells, float(len(unknown)))
        for view, parts in shares.items():
            table, own = self._counted[view].table, self._counted[view].covariance
            operator = self._operator(view, parts, attributes)
            total += operator @ table
            spread += np.square(operator) @ own.diagonal
            spread -= np.square(operator @ own.factors).sum(axis=1)
        return Estimate(scale * total, scale**2 * np.maximum(spread, 0.0), reports)

    def _parity_table(
        self, attributes: Attributes, shares: Mapping[int, Sequence[Share]], unknown: int
    ) -> tuple[Floats, Floats]:
        """Return table and variances by one transform; all cells have the same variance."""
        shape, widths = self._domain.shape(attributes), self._widths(attributes)
        step = {i: prod(widths[a + 1 :]) for a, i in enumerate(attributes)}
        spectrum = np.zeros(prod(widths))
        spectrum[0] = 1.0
        spread = float(unknown)
        for view, parts in shares.items():
            table, own = self._counted[view].table, self._counted[view].covariance
            difference = float(table[0] - table[1])
            factor = own.factors[0] - own.factors[1]
            variance = float(own.diagonal.sum() - factor @ factor)
            for key, _, share in parts:
                place = sum(step[i] * mask for i, mask in zip(*key, strict=True))
                spectrum[place] += share * difference
                spread += share**2 * variance
        patterns = transform(spectrum).reshape(widths)
        found = patterns[tuple(slice(r) for r in shape)].reshape(-1)
        scale = self._scale(attributes)
        return scale * found, np.full(found.size, scale**2 * max(spread, 0.0))

    def covariance(self, attributes: Attributes) -> Floats:
        self._check(attributes, MAX_COVARIANCE_CELLS)
        require_at_most(self._k, attributes, self._domain, self._method)
        shares, unknown = self._shares(attributes)
        cells = self._domain.size(attributes)
        total = np.zeros((cells, cells))
        for view, parts in shares.items():
            own = self._counted[view].covariance
            operator = self._operator(view, parts, attributes)
            factors = operator @ own.factors
            total += (operator * own.diagonal) @ operator.T - factors @ factors.T
        for key in unknown:
            turns = self._phase(key, attributes)
            total += np.cos(2.0 * np.pi * (turns[:, None] - turns))
        return self._scale(attributes) ** 2 * total


class CoefficientMethod:
    """The base class of methods whose views are coefficients; a report serves all tables."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> CoefficientModel:
        return CoefficientModel(plan, counted_views(plan, tallies))
