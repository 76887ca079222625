"""Windows of a plan drawn from a data set, many at once, without drawing reports one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.changes.batch import Windows
from benchmarks.populations import population
from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.evaluation.population import local_plan

ATTRIBUTES = 8  # attributes of each data set that are used


def records(dataset: str) -> tuple[Domain, np.ndarray]:
    """Return the first eight attributes of a data set (adult-42: another measurement on adult)."""
    table = population(dataset.partition("-")[0])
    domain = Domain(table.domain.attributes[:ATTRIBUTES])
    return domain, np.asarray(table.codes[:, :ATTRIBUTES])


def plan_of(method: str, domain: Domain, users: int, epsilon: str) -> Plan:
    return local_plan(methods.get(method), Request(domain, epsilon, users, 2))


def single_view(
    mechanism: str, domain: Domain, epsilon: str, attributes: tuple[int, int]
) -> tuple[Group, ...]:
    """Return one group that reports the table of two attributes."""
    built = standard(mechanism, epsilon, domain.size(attributes))
    return (Group(built, (View(attributes),), (1,)),)


def view_frequencies(domain: Domain, groups: Sequence[Group], codes: np.ndarray) -> list[Floats]:
    return [
        np.bincount(view.inputs(codes, domain), minlength=view.cells(domain)) / len(codes)
        for group in groups
        for view in group.views
    ]


def windows(
    domain: Domain,
    groups: Sequence[Group],
    epsilon: str,
    frequencies: Sequence[Floats],
    n: int,
    draws: int,
    generator: np.random.Generator,
) -> Windows:
    """Draw windows of n reports each from the exact distribution of their tallies."""
    shares = np.array([s for g in groups for s in g.shares], np.float64)
    reports = generator.multinomial(n, shares / shares.sum(), size=draws)
    views = tuple((g.mechanism, v) for g in (g.at(epsilon) for g in groups) for v in g.views)
    drawn = []
    for number, (mechanism, _) in enumerate(views):
        histograms = generator.multinomial(reports[:, number], frequencies[number])
        drawn.append(np.stack([mechanism.draw_tally(h, generator) for h in histograms]))
    return Windows(domain, views, reports, tuple(drawn))
