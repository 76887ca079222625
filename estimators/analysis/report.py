"""Association of published pairs, as snapshots of a window contain it, and hidden causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
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
from calmstream.estimators.cause import Cause
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Floats
from calmstream.estimators.methods.base import (
    GroupedAnswers,
    HiddenCauses,
    LinearAnswers,
    Model,
    RawTables,
)
from calmstream.estimators.numerics.dependence import cramers_v, cramers_v_error
from calmstream.estimators.plan import Plan

MAX_PAIRS = 2016  # all pairs are looked at of at most 64 attributes; of more, the published pairs
MAX_TESTED_CELLS = 512
"""Largest table that is tested for independence: the cost grows with the cube of its cells."""


def analyse(
    model: Model, domain: Domain, marginals: Sequence[Attributes], n: int
) -> dict[str, Any]:
    """Return ``pairs`` with the association of published pairs, and ``tree``, by Chow and Liu."""
    pairs, information = [], {}
    for attributes in marginals:
        if len(attributes) == 2:
            found = associate(model, domain, attributes, n)
            information[attributes[0], attributes[1]] = found.information
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
            "attributes": [domain.names[edge.first], domain.names[edge.second]],
            "mutual_information": edge.information,
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
    shape = domain.shape(pair)
    table = np.maximum(published.table, 0.0).reshape(shape)
    # Tables of a posterior are shrunk already: the noise's share is removed from others only.
    shrunk = isinstance(model, GroupedAnswers)
    raw, covariance, test = _tested(model, domain, pair, n)
    used = table if shrunk else _unclipped(model, pair, table) if raw is None else raw
    variance = None if shrunk else np.square(published.stderr).reshape(shape)
    if isinstance(model, RawTables) and covariance is not None:
        variance = np.diag(covariance).reshape(shape)
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


def _unclipped(model: Model, pair: Attributes, table: Floats) -> Floats:
    """Return the unbiased table of a pair; the given one where there is none."""
    if isinstance(model, LinearAnswers):
        with suppress(InvalidInput):  # no view covers the pair
            return model.unclipped(pair).reshape(table.shape)
    return table


def _tested(
    model: Model, domain: Domain, pair: Attributes, n: int
) -> tuple[Floats | None, Floats | None, Independence | None]:
    """Return the unbiased table of a pair, the covariance of its cells, row-major, and its test.

    There is no table of a model that shrinks; that covariance is of its published table.
    """
    if domain.size(pair) > MAX_TESTED_CELLS:
        return None, None, None
    if not isinstance(model, GroupedAnswers):
        known = unbiased_pair(model, domain, pair, n)
        return (None, None, None) if known is None else (*known[:2], independence(*known, n))
    evidence = model.dependence(pair)
    shape = domain.shape(pair)
    found, spread = model.grouped(pair, [np.eye(labels) for labels in shape])
    cells = np.maximum(found, 0.0).reshape(shape)
    if cells.sum() <= 0.0:
        return None, None, None
    cells = cells / cells.sum()
    margins = cells.sum(axis=1), cells.sum(axis=0)
    if evidence is not None:
        return None, spread, zero_test(*evidence)
    return None, spread, even_independence(found.reshape(shape), spread, margins)


def unbiased_pair(
    model: Model, domain: Domain, attributes: Attributes, n: int
) -> tuple[Floats, Floats, tuple[Floats, Floats]] | None:
    """Return the unbiased table (r, s), its covariance with devices' sampling, and margins."""
    shape = domain.shape(attributes)
    published = np.maximum(model.marginal(attributes).table, 0.0).reshape(shape)
    if published.sum() <= 0.0:
        return None
    published = published / published.sum()
    margins = published.sum(axis=1), published.sum(axis=0)
    if isinstance(model, RawTables):
        known = model.raw_table(attributes)
        return None if known is None else (known[0].reshape(shape), known[1], margins)
    if not isinstance(model, LinearAnswers):
        return None
    try:
        raw = model.unclipped(attributes)
        spread = model.covariance(attributes)
    except InvalidInput:
        return None
    if model.everyone:
        # This covariance is that of the noise, given the records. The records are a sample of a
        # population, which adds the multinomial covariance.
        frequencies = published.ravel()
        spread = spread + (np.diag(frequencies) - np.outer(frequencies, frequencies)) / n
    return raw.reshape(shape), spread, margins


def causes(domain: Domain, model: Model) -> list[dict[str, Any]]:
    """Return the causes of a model, most evidence first; none of a model without `HiddenCauses`."""
    known = model.causes() if isinstance(model, HiddenCauses) else ()
    return [_document(domain, one) for one in known]


def _document(domain: Domain, cause: Cause) -> dict[str, Any]:
    labels = [
        {
            "attribute": domain.names[one.attribute],
            "label": domain.attributes[one.attribute].labels[one.code],
            "without": one.without,
            "within": one.within,
            "stderr": one.stderr,
        }
        for one in cause.shifts
    ]
    return {
        "share": cause.share,
        "stderr": cause.stderr,
        "agreement": cause.agreement,
        "labels": labels,
    }
