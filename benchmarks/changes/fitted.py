"""A test that users may try themselves: published differences over their standard errors.

Published tables are shrunk towards each other and cut at zero, and the errors of their cells depend
on each other. This test takes the cells for independent and unbiased.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.changes.simulate import plan_of, records, view_frequencies, windows
from calmstream.estimators import methods
from calmstream.estimators.analysis.distribution import tail
from calmstream.estimators.changes import Source
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Floats
from calmstream.estimators.methods.base import Model
from calmstream.estimators.plan import Plan
from calmstream.estimators.planning import default_marginals
from calmstream.estimators.tally import Tally

Published = tuple[Floats, Floats]
"""Cells of a table and their standard errors."""

PAIRS = 60
"""Pairs of null windows; every window is fitted once."""

LEVEL = 0.05
EPSILON = "1"


def naive(dataset: str, method: str, n: str) -> dict[str, Any]:
    """Return the size of the test on all tables of one and two attributes."""
    domain, codes = records(dataset)
    plan = plan_of(method, domain, int(n), EPSILON)
    frequencies = view_frequencies(domain, plan.groups, codes)
    generator = np.random.default_rng(crc32(f"naive{dataset}{method}{n}".encode()))
    drawn = windows(domain, plan.groups, EPSILON, frequencies, int(n), 2 * PAIRS, generator)
    tables = default_marginals(domain)
    fits = (methods.get(method).fit(plan, tallies_of(plan, s)) for s in drawn.sources())
    fitted = [[_published(fit, target) for target in tables] for fit in fits]
    found = np.array(
        [
            [naive_value(a, b) for a, b in zip(one, other, strict=True)]
            for one, other in zip(fitted[::2], fitted[1::2], strict=True)
        ]
    )
    low = found < LEVEL
    each = low.mean(axis=0)
    return {
        "windows": PAIRS,
        "tables": len(tables),
        "share": float(low.mean()),
        "error": float(low.mean(axis=1).std() / np.sqrt(PAIRS)),
        "single": float(each[: len(domain)].mean()),
        "pairs": float(each[len(domain) :].mean()),
        "least": float(each.min()),
        "most": float(each.max()),
    }


def naive_table(plan: Plan, side: Source, target: Attributes) -> Published:
    """Return a fitted table and the standard errors of its cells."""
    return _published(methods.get(plan.method).fit(plan, tallies_of(plan, side)), target)


def _published(fit: Model, target: Attributes) -> Published:
    found = fit.marginal(target)
    return found.table, found.stderr


def naive_value(one: Published, other: Published) -> float:
    """Return the p-value of squared differences over their variances, added over the cells."""
    variance = np.square(one[1]) + np.square(other[1])
    statistic = float((np.square(one[0] - other[0]) / variance).sum())
    return tail(statistic, len(variance) - 1)


def tallies_of(plan: Plan, side: Source) -> list[Tally]:
    """Return the counts of one side, group by group."""
    views = iter(side.views)
    out = []
    for group in plan.groups:
        own = [next(views) for _ in group.views]
        out.append(Tally(np.array([v.n for v in own]), np.stack([v.counts for v in own])))
    return out
