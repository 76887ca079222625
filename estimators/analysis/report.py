"""The association of all published pairs of attributes, as snapshots of a window contain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.analysis.association import chow_liu, mutual_information
from calmstream.estimators.analysis.chi_square import Independence, independence
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Floats
from calmstream.estimators.methods.base import LinearAnswers, Model
from calmstream.estimators.numerics.dependence import cramers_v


def analyse(
    model: Model, domain: Domain, marginals: Sequence[Attributes], n: int
) -> dict[str, Any]:
    """Return the association of every published pair, and a dependence tree over all attributes.

    Returns:
        A JSON-ready object. ``pairs`` is a list with ``attributes`` (names), ``mutual_information``
        (nats), ``cramers_v`` and, if the method has unbiased tables with a known covariance,
        ``chi_square`` (the fields of `Independence`). ``tree`` is the list of edges of the Chow-Liu
        tree, strongest first, with the names of the attributes and the mutual information in nats.
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
    """Return the association of one pair, JSON-ready."""
    shape = domain.shape(attributes)
    published = model.marginal(attributes)
    table = np.maximum(published.table, 0.0).reshape(shape)
    test = check_pair(model, domain, attributes, n)
    raw = table
    if isinstance(model, LinearAnswers) and test is not None:
        raw = model.unclipped(attributes).reshape(shape)
    pair: dict[str, Any] = {
        "attributes": [domain.names[i] for i in attributes],
        "mutual_information": mutual_information(table),
        "cramers_v": cramers_v(raw, np.square(published.stderr).reshape(shape)),
    }
    if test is not None:
        pair["chi_square"] = asdict(test) | {"dependent": test.dependent}
    return pair


def check_pair(model: Model, domain: Domain, attributes: Attributes, n: int) -> Independence | None:
    """Test one pair for independence; None if the method has no unbiased table of it."""
    found = unbiased_pair(model, domain, attributes, n)
    return None if found is None else independence(*found, n)


def unbiased_pair(
    model: Model, domain: Domain, attributes: Attributes, n: int
) -> tuple[Floats, Floats, tuple[Floats, Floats]] | None:
    """Return the unbiased table of a pair, its covariance and the distributions of both attributes.

    Args:
        attributes: the pair, ascending.

    Returns:
        Shapes (r, s), (r s, r s), and (r,) with (s,). The covariance includes that the devices are
        a sample of a population. None if the method has no unbiased table of the pair.
    """
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
        # This covariance is that of the noise, given the records. The records are a sample of a
        # population, which adds the multinomial covariance.
        frequencies = published.ravel()
        spread = spread + (np.diag(frequencies) - np.outer(frequencies, frequencies)) / n
    return raw.reshape(shape), spread, (published.sum(axis=1), published.sum(axis=0))
