"""The association of all published pairs of one snapshot set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.analysis.association import mutual_information
from estimators.analysis.chi_square import independence
from estimators.analysis.tree import chow_liu
from estimators.errors import InvalidInput
from estimators.methods.base import LinearAnswers
from estimators.numerics.dependence import cramers_v

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.analysis.chi_square import Independence
    from estimators.domain import Attributes, Domain
    from estimators.methods.base import Model


def analyse(
    model: Model, domain: Domain, marginals: Sequence[Attributes], n: int
) -> dict[str, Any]:
    """Return how every published pair is associated, and a dependence tree over all attributes.

    Args:
        model: fitted.
        domain: of the plan.
        marginals: only those of two attributes are used.
        n: reports, at least 1.

    Returns:
        JSON-ready: ``pairs``, each with ``attributes`` (names), ``mutual_information`` (nats),
        ``cramers_v`` and, where the method's raw tables are unbiased with a known covariance,
        ``chi_square`` (the fields of `Independence`); ``tree``, the edges of the Chow-Liu tree as
        names and nats, strongest first. Names, not positions, because people read it.
    """
    pairs, information = [], {}
    for attributes in marginals:
        if len(attributes) == 2:
            pair = _pair(model, domain, attributes, n)
            information[attributes[0], attributes[1]] = pair["mutual_information"]
            pairs.append(pair)
    tree = [
        {
            "attributes": [domain.names[edge.first], domain.names[edge.second]],
            "mutual_information": edge.information,
        }
        for edge in chow_liu(len(domain), information)
    ]
    return {"pairs": pairs, "tree": tree}


def _pair(model: Model, domain: Domain, attributes: Attributes, n: int) -> dict[str, Any]:
    shape = domain.shape(attributes)
    found = model.marginal(attributes)
    table = np.maximum(found.table, 0.0).reshape(shape)
    test = check_pair(model, domain, attributes, n)
    raw = table
    if isinstance(model, LinearAnswers) and test is not None:
        raw = model.unclipped(attributes).reshape(shape)
    pair: dict[str, Any] = {
        "attributes": [domain.names[i] for i in attributes],
        "mutual_information": mutual_information(table),
        "cramers_v": cramers_v(raw, np.square(found.stderr).reshape(shape)),
    }
    if test is not None:
        pair["chi_square"] = asdict(test) | {"dependent": test.dependent}
    return pair


def check_pair(model: Model, domain: Domain, attributes: Attributes, n: int) -> Independence | None:
    """Test one pair for independence; None if the method has no unbiased table of it."""
    if not isinstance(model, LinearAnswers):
        return None
    shape = domain.shape(attributes)
    published = np.maximum(model.marginal(attributes).table, 0.0).reshape(shape)
    if published.sum() <= 0.0:
        return None
    published = published / published.sum()
    try:
        raw = model.unclipped(attributes)
        spread = model.covariance(attributes)
    except InvalidInput:
        return None
    if model.everyone:
        # Noise given the devices' records; the records themselves are a sample of the population.
        even = published.ravel()
        spread = spread + (np.diag(even) - np.outer(even, even)) / n
    margins = published.sum(axis=1), published.sum(axis=0)
    return independence(raw.reshape(shape), spread, margins, n)
