"""Test whether the reports of one window look forged, from the raw counts.

Unbiased tables are compared with distributions that a forger (Cao, Jia and Gong, USENIX Security
2021) has to imitate in every group at once. docs/methods/poisoning.md has tests and formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from calmstream.estimators.numerics import consistency
from calmstream.estimators.numerics.distribution import tail
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import CountedView, counted_views, likely
from calmstream.estimators.tally import Tally

ALPHA = 1e-4
"""An examination is suspicious when its smallest p-value, times the number of tests, is below."""

SIGMAS = 4.0  # how many standard errors outside [0, 1] a cell counts as impossible
MIN_REPORTS = 100  # views with fewer reports are left out: their estimates are not nearly normal
MIN_EXPECTED = 5.0  # least reports expected in a view for the shares to be tested


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one test."""

    test: str
    statistic: float  # chi-square; for ``cells`` the number of impossible cells
    of: int  # degrees of freedom; for ``cells`` the number of cells
    p: float  # probability of at least this if all are honest; for ``cells`` a bound


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all tests that had enough reports."""

    findings: tuple[Finding, ...]

    @property
    def p(self) -> float:
        smallest = min((finding.p for finding in self.findings), default=1.0)
        return min(1.0, smallest * max(len(self.findings), 1))

    @property
    def suspicious(self) -> bool:
        return self.p < ALPHA

    def to_json(self) -> dict[str, Any]:
        tests = [
            asdict(f) | {"statistic": _rounded(f.statistic), "p": _rounded(f.p)}
            for f in self.findings
        ]
        return {"suspicious": self.suspicious, "p": _rounded(self.p), "tests": tests}


def examine(plan: Plan, tallies: Sequence[Tally], windows: int = 1) -> Examination:
    """Make all tests on the counts of consecutive windows: O(cells of all views)."""
    tables = _tables(plan, tallies)
    repeats = -(-windows // plan.guarantee.windows) if plan.guarantee.windows > 1 else 1
    found = (
        _shares(plan, tallies, repeats),
        _agreement(tables, plan.domain.cardinalities, repeats),
        _totals(tables),
        _cells(tables),
    )
    return Examination(tuple(finding for finding in found if finding is not None))


def _tables(plan: Plan, tallies: Sequence[Tally]) -> list[CountedView]:
    return [
        own
        for own in counted_views(plan, tallies)
        if own.view.kind == "cell"
        and own.n >= MIN_REPORTS
        # A mechanism of whole records may count smaller tables only: the view has no table then.
        and own.mechanism.holds(range(len(own.view.attributes)))
    ]


def _shares(plan: Plan, tallies: Sequence[Tally], repeats: int) -> Finding | None:
    """Test the shares of the views; ``repeats`` is the maximum number of reports of a device."""
    observed = np.concatenate([tally.n for tally in tallies]).astype(np.float64)
    share = np.array([s for group in plan.groups for s in group.shares], np.float64)
    expected = observed.sum() * share / share.sum()
    if len(expected) < 2 or expected.min() < MIN_EXPECTED:
        return None
    statistic = float((np.square(observed - expected) / expected).sum()) / repeats
    return _chi_square("shares", statistic, len(expected) - 1)


def _agreement(
    tables: Sequence[CountedView], cardinalities: tuple[int, ...], repeats: int
) -> Finding | None:
    """Test whether the one-way tables of each attribute agree among the views that contain it.

    One view enters for each of its attributes, so their statistics depend on each other: the
    smallest p-value counts, times the number of attributes tested.
    """
    found = []
    for attribute in range(len(cardinalities)):
        holding = [table for table in tables if attribute in table.view.attributes]
        if len(holding) > 1:
            found.append(_homogeneity(holding, attribute, cardinalities, repeats))
    best = min(found, key=lambda one: one.p, default=None)
    return best and replace(best, p=min(1.0, best.p * len(found)))


def _homogeneity(
    holding: Sequence[CountedView], attribute: int, cardinalities: tuple[int, ...], repeats: int
) -> Finding:
    """Test distances of one-way tables from their mean, without the last cell: totals are known."""
    means, weights = [], []
    for table in holding:
        into = consistency.projection(table.view.attributes, (attribute,), cardinalities)
        size = cardinalities[attribute]
        mean = np.bincount(into, table.table, size)
        spread = table.covariance.into(into, size).dense()
        # The noise of reports of one device is independent, but they have one record.
        share = np.bincount(into, likely(table.table), size)
        spread += (repeats - 1) / table.n * (np.diag(share) - np.outer(share, share))
        means.append(mean[:-1])
        weights.append(np.linalg.pinv(spread[:-1, :-1], hermitian=True))
    weighted = sum(w @ x for w, x in zip(weights, means, strict=True))
    pooled = np.linalg.pinv(sum(weights), hermitian=True) @ weighted
    gaps = [x - pooled for x in means]
    statistic = float(sum(g @ w @ g for w, g in zip(weights, gaps, strict=True)))
    freedom = (len(holding) - 1) * (cardinalities[attribute] - 1)
    return _chi_square("agreement", statistic, freedom)


def _totals(tables: Sequence[CountedView]) -> Finding | None:
    """Test the totals of all tables whose mechanism does not fix them."""
    statistic, freedom = 0.0, 0
    for table in tables:
        if table.mechanism.fixed_total:
            continue
        own = table.covariance
        variance = float(own.diagonal.sum() - np.square(own.factors.sum(axis=0)).sum())
        statistic += float(table.table.sum() - 1.0) ** 2 / variance
        freedom += 1
    return _chi_square("totals", statistic, freedom) if freedom else None


def _cells(tables: Sequence[CountedView]) -> Finding | None:
    """Count impossible cells; p is a bound, as if all true frequencies were 0 or 1."""
    outside = total = 0
    for table in tables:
        nearest = np.clip(table.table, 0.0, 1.0)
        sigma = np.sqrt(table.mechanism.variance(table.n, nearest))
        outside += int((np.abs(table.table - nearest) > SIGMAS * sigma).sum())
        total += table.table.size
    if not total:
        return None
    one = 0.5 * math.erfc(SIGMAS / math.sqrt(2.0))
    return Finding("cells", float(outside), total, _binomial_tail(total, one, outside))


def _chi_square(test: str, statistic: float, freedom: int) -> Finding:
    return Finding(test, statistic, freedom, tail(statistic, freedom))


def _binomial_tail(n: int, p: float, least: int) -> float:
    """Return P(Binomial(n, p) ≥ least) for small p: its first terms, which fall quickly."""
    if least == 0:
        return 1.0
    tail = 0.0
    for k in range(least, min(n, least + 60) + 1):
        log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        tail += math.exp(log + k * math.log(p) + (n - k) * math.log1p(-p))
    return min(1.0, tail)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
