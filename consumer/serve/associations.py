"""Which attributes depend on each other: all pairs, and the Chow-Liu tree."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import window_range
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.serve.plan_service import PlanService
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.chi_square import LEVEL, even_independence, independence
from calmstream.estimators.analysis.report import unbiased_pair
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Floats
from calmstream.estimators.methods.base import GroupedAnswers, LinearAnswers, Model
from calmstream.estimators.numerics.dependence import cramers_v, cramers_v_error

MAX_PAIRS = 2016
"""All pairs are answered of at most 64 attributes; of more, the published pairs."""

MAX_TESTED_CELLS = 512
"""Largest table that is tested for independence: the cost grows with the cube of its cells."""


def associations(
    service: PlanService, history: History, windows: Windows, max_cells: int
) -> dict[str, Any]:
    """Return the JSON object.

    ``strength`` is Cramér's V with the noise's share removed. ``p`` is that of the test of
    independence with the covariance of the cells; a method that shrinks its tables gives too large
    values, never too small ones. ``verdict`` is ``dependent`` where the test rejects independence
    at 5 %, else ``undecided``. ``stderr`` is the standard error of the strength by the delta
    method; it is None for undecided pairs, because near 0 the errors of V are far from normal.
    """
    domain = service.plan.domain
    model, chosen = history.model(windows)
    finals = (service.results.final(w) for w in range(chosen.first, chosen.last + 1))
    reports = sum(final.reports for final in finals if final is not None)
    pairs, information = [], {}
    for pair in _pairs(service, max_cells):
        try:
            found, shared = _pair(model, domain, pair, max(reports, 1))
        except InvalidInput:
            continue  # the plan does not collect what the pair needs
        pairs.append(found)
        information[pair[0], pair[1]] = shared
    tree = chow_liu(len(domain), information)
    return {
        "windows": [window_range(service.plan, chosen)],
        "reports": reports,
        "pairs": pairs,
        "tree": [[domain.names[e.first], domain.names[e.second], e.information] for e in tree],
    }


def _pairs(service: PlanService, max_cells: int) -> list[Attributes]:
    domain = service.plan.domain
    every = list(combinations(range(len(domain)), 2))
    if len(every) > MAX_PAIRS:
        every = [pair for pair in service.plan.marginals if len(pair) == 2][:MAX_PAIRS]
    return [pair for pair in every if domain.size(pair) <= max_cells]


def _pair(model: Model, domain: Domain, pair: Attributes, n: int) -> tuple[dict[str, Any], float]:
    """Return one pair, and its mutual information in nats."""
    shape = domain.shape(pair)
    published = model.marginal(pair)
    table = np.maximum(published.table, 0.0).reshape(shape)
    tested = _tested(model, domain, pair, n) if domain.size(pair) <= MAX_TESTED_CELLS else None
    # Tables of a posterior are shrunk already: the noise's share is removed from others only.
    shrunk = isinstance(model, GroupedAnswers)
    used = table if shrunk else _unclipped(model, pair, table)
    variance = None if shrunk else np.square(published.stderr).reshape(shape)
    strength = cramers_v(used, variance)
    error = None
    if tested is not None and tested.p < LEVEL and strength > 0.0:
        error = cramers_v_error(used, tested.covariance, variance)
    found = {
        "attributes": [domain.names[i] for i in pair],
        "strength": strength,
        "stderr": error,
        "p": None if tested is None else tested.p,
        "verdict": "undecided" if error is None else "dependent",
    }
    return found, mutual_information(table)


def _unclipped(model: Model, pair: Attributes, table: Floats) -> Floats:
    """Return the unbiased table of a pair; the given one where there is none."""
    if isinstance(model, LinearAnswers):
        with suppress(InvalidInput):  # no view covers the pair
            return model.unclipped(pair).reshape(table.shape)
    return table


class _Tested(NamedTuple):
    """A test of independence: the covariance of the cells, shape (r s, r s), and the p-value."""

    covariance: Floats
    p: float


def _tested(model: Model, domain: Domain, pair: Attributes, n: int) -> _Tested | None:
    """Test a pair for independence; None if the covariance of the cells is not known."""
    if not isinstance(model, GroupedAnswers):
        known = unbiased_pair(model, domain, pair, n)
        if known is None:
            return None
        return _Tested(known[1], independence(*known, n).p_value)
    shape = domain.shape(pair)
    found, spread = model.grouped(pair, [np.eye(labels) for labels in shape])
    cells = np.maximum(found, 0.0).reshape(shape)
    if cells.sum() <= 0.0:
        return None
    cells = cells / cells.sum()
    margins = cells.sum(axis=1), cells.sum(axis=0)
    return _Tested(spread, even_independence(found.reshape(shape), spread, margins)[1])
