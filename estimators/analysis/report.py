"""Association of published pairs, as snapshots of a window contain it, and hidden causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.chi_square import (
    Independence,
    even_independence,
    independence,
    zero_test,
)
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.methods.base import (
    GroupedAnswers,
    HiddenCauses,
    LinearAnswers,
    Model,
    RawTables,
)
from calmstream.estimators.numerics.dependence import cramers_v, cramers_v_error
from calmstream.estimators.plan import Plan

MAX_PAIRS = 2016  # with at most 64 attributes all pairs are looked at, else the published ones
MAX_TESTED_CELLS = 512
"""Largest table that is tested for independence: the cost grows with the cube of its cells."""


def analyse(
    model: Model, domain: Domain, marginals: Sequence[Attributes], n: int
) -> dict[str, Any]:
    """Return ``pairs`` with the association of published pairs, and ``tree``, by Chow and Liu."""
    pairs, information = [], dict[Attributes, float]()
    for attributes in marginals:
        if len(attributes) == 2:
            found = associate(model, domain, attributes, n)
            information[attributes] = found.information
            pair: dict[str, Any] = {
                "attributes": [domain.names[i] for i in attributes],
                "mutual_information": found.information,
                "cramers_v": found.strength,
            }
            if found.test is not None:
                pair["chi_square"] = asdict(found.test) | {"dependent": found.test.dependent}
            pairs.append(pair)
    tree = [
        {
            "attributes": [domain.names[i] for i in edge],
            "mutual_information": information[edge],
        }
        for edge in chow_liu(domain.ordinary, information)
    ]
    return {"pairs": pairs, "tree": tree}


@dataclass(frozen=True, slots=True)
class PairAssociation:
    """How strongly two attributes depend on each other."""

    information: float  # mutual information of the published table in nats
    strength: float  # Cramér's V without the noise's share
    stderr: float | None  # by the delta method; None near 0, where errors are not normal
    test: Independence | None  # None where the covariance of the cells is not known


def associate(model: Model, domain: Domain, pair: Attributes, n: int) -> PairAssociation:
    """Return the association of an ascending pair from n reports."""
    published = model.marginal(pair)
    table = np.maximum(published.table, 0.0).reshape(domain.shape(pair))
    variance: Floats | None = np.square(published.stderr).reshape(table.shape)
    if isinstance(model, GroupedAnswers):
        # Tables of a posterior are shrunk already: the noise's share is removed from others only.
        used, variance = table, None
        covariance, test = _shrunk_test(model, pair, domain)
    else:
        used, covariance = _unbiased(model, pair, table, n)
        test = None if covariance is None else independence(used, covariance, _margins(table), n)
        if isinstance(model, RawTables) and covariance is not None:
            variance = np.diag(covariance).reshape(table.shape)
    strength = cramers_v(used, variance)
    error = None
    if covariance is not None and test is not None and test.dependent and strength > 0.0:
        error = cramers_v_error(used, covariance, variance)
    return PairAssociation(mutual_information(table), strength, error, test)


def pairs_of(plan: Plan, max_cells: int) -> list[Attributes]:
    d = plan.domain.ordinary
    pairs: Iterable[Attributes] = combinations(range(d), 2)
    if comb(d, 2) > MAX_PAIRS:
        pairs = [pair for pair in plan.marginals if len(pair) == 2][:MAX_PAIRS]
    return [pair for pair in pairs if plan.domain.size(pair) <= max_cells]


def _shrunk_test(
    model: GroupedAnswers, pair: Attributes, domain: Domain
) -> tuple[Floats | None, Independence | None]:
    """Return the covariance of the cells of the published table, row-major, and its test."""
    if domain.size(pair) > MAX_TESTED_CELLS:
        return None, None
    evidence = model.dependence(pair)
    shape = domain.shape(pair)
    found, spread = model.grouped(pair, [np.eye(labels) for labels in shape])
    if evidence is not None:
        return spread, zero_test(*evidence)
    table = found.reshape(shape)
    return spread, even_independence(table, spread, _margins(np.maximum(table, 0.0)))


def _unbiased(
    model: Model, pair: Attributes, table: Floats, n: int
) -> tuple[Floats, Floats | None]:
    """Return the unbiased table (r, s) of a pair, and its covariance with devices' sampling.

    The published ``table`` where no unbiased one exists; no covariance if unknown or too large.
    """
    tested = table.size <= MAX_TESTED_CELLS and table.sum() > 0.0
    if isinstance(model, RawTables):
        known = model.raw_table(pair) if tested else None
        return (table, None) if known is None else (known[0].reshape(table.shape), known[1])
    if not isinstance(model, LinearAnswers):
        return table, None
    try:
        raw = model.unclipped(pair).reshape(table.shape)
        spread = model.covariance(pair) if tested else None
    except InvalidInput:  # no view covers the pair
        return table, None
    if spread is not None and model.everyone:
        # This covariance is that of the noise, given the records. The records are a sample of a
        # population, which adds the multinomial covariance.
        shares = (table / table.sum()).ravel()
        spread = spread + (np.diag(shares) - np.outer(shares, shares)) / n
    return raw, spread


def _margins(table: Floats) -> tuple[Floats, Floats]:
    shares = table / table.sum()
    return shares.sum(axis=1), shares.sum(axis=0)


def causes(domain: Domain, model: Model) -> list[dict[str, Any]]:
    """Return the causes of a model, most evidence first; none of a model without `HiddenCauses`."""
    return [
        {
            "share": cause.share,
            "stderr": cause.stderr,
            "agreement": cause.agreement,
            "labels": [
                {
                    "attribute": domain.names[one.attribute],
                    "label": domain.attributes[one.attribute].labels[one.code],
                    "without": one.without,
                    "within": one.within,
                    "stderr": one.stderr,
                }
                for one in cause.shifts
            ],
        }
        for cause in (model.causes() if isinstance(model, HiddenCauses) else ())
    ]
