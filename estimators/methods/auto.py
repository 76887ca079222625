"""Choose a method by the error that is predicted for each applicable one.

A design states the error of noise and sampling by size of marginal, for unbiased linear
estimates. The prior interaction sizes of `estimators.noise_aware.design.allocation` supply what a
design does not state:

- The error is bounded by that of the uniform table under the prior, because a method that makes
  its tables valid is rarely worse (`Prediction.unbounded` is the error without the bound). The
  bound favours LoPub and methods with raw tables, but never makes a method the best.
- Errors of sizes that a design does not state are extrapolated order by order. In a t-way table
  the orders o contribute ``C(t, o) r^(o - t) q_o``, with r the mean cells of an attribute. The q_o
  follow from the stated sizes. Higher ones are q_3 scaled by r, or, for a method whose largest view
  is smaller than k, the prior energy of the orders that the method takes to be zero.
- Methods that read pairs from views take a pair that no view holds to be zero. The prior energy of
  these pairs is added.

The noise-aware method states its posterior error under the same prior itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb, exp, log
from typing import TYPE_CHECKING

import numpy as np

from estimators import methods
from estimators.errors import PlanError
from estimators.methods.base import Piloted
from estimators.noise_aware.priors import PriorScales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from estimators.methods.base import Design
    from estimators.plan.request import Request

OWN_PRIOR = ("noise-aware",)
"""Methods whose stated errors hold what the prior adds."""

PRODUCTS = ("rr-independent",)
"""Methods that recover single attributes only and take the rest to be independent."""

TIE = 1.25
"""Predictions are hardly better than this. The noise-aware method is taken within it: what its
joint fit and non-negativity gain is not in its prediction."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted error of one method.

    Attributes:
        method: registry name.
        error: predicted sum of squared errors of one k-way marginal; None where it cannot serve.
        reason: why it cannot serve; empty otherwise.
        unbounded: the error before it is bounded by the uniform table's: it shows how
            far a method is from being useful.
        design: the design, if the method can serve.
    """

    method: str
    error: float | None
    reason: str = ""
    unbounded: float | None = None
    design: Design | None = field(default=None, repr=False, compare=False)


def predictions(request: Request) -> tuple[Prediction, ...]:
    """Return every method that learns from reports, the least predicted error first.

    Cost: a design of every method.
    """
    found = [
        _predict(name, request)
        for name in methods.names()
        if not methods.get(name).baseline and not isinstance(methods.get(name), Piloted)
    ]
    return tuple(sorted(found, key=lambda p: (p.error is None, p.error or 0.0, p.method)))


def choose(request: Request) -> Prediction:
    """Return the method with the least predicted error; the noise-aware one of near equals.

    Raises:
        PlanError: no method can serve the request.
    """
    return pick(predictions(request))


def pick(found: Sequence[Prediction]) -> Prediction:
    """Return the choice among predictions in order of their error.

    Raises:
        PlanError: no method can serve the request.
    """
    best = found[0]
    if best.error is None:
        raise PlanError(f"no method can serve this request; {best.method}: {best.reason}")
    for prediction in found:
        near = prediction.error is not None and prediction.error <= TIE * best.error
        if near and prediction.method in OWN_PRIOR:
            return prediction
    return best


def _predict(name: str, request: Request) -> Prediction:
    try:
        design = methods.get(name).design(request)
    except PlanError as refusal:
        return Prediction(name, None, str(refusal))
    if not design.expected_sse:
        return Prediction(name, None, "it states no error")
    if name in OWN_PRIOR and request.k in design.expected_sse:
        own = design.expected_sse[request.k]
        return Prediction(name, own, unbounded=own, design=design)
    held = max(len(view.attributes) for group in design.groups for view in group.views)
    total, uniform = _with_prior(design, request, 1 if name in PRODUCTS else held)
    return Prediction(name, min(total, uniform), unbounded=total, design=design)


def _with_prior(design: Design, request: Request, largest: int) -> tuple[float, float]:
    """Return the extrapolated noise plus the prior energy left out, and the uniform error.

    Args:
        design: of the method.
        request: the requirements.
        largest: order of the largest interactions that the method recovers.
    """
    cards, k = request.domain.cardinalities, request.k
    cells = exp(sum(map(log, cards)) / len(cards))
    noise = _orders(design.expected_sse, cells)
    unseen = 1.0 - _pairs_held(design, len(cards))
    total = uniform = 0.0
    for order in range(1, k + 1):
        times = comb(k, order) * cells ** (order - k)
        energy = _energy(order) * (1.0 - 1.0 / cells) ** order
        uniform += times * energy
        known = max(noise)
        if order > largest:
            total += times * energy
        elif order in noise:
            total += times * (noise[order] + (unseen * energy if order == 2 else 0.0))
        else:
            total += times * noise[known] * (1.0 - 1.0 / cells) ** (order - known)
    return total, uniform


def _pairs_held(design: Design, d: int) -> float:
    """Return the share of the pairs of attributes that some view holds."""
    held = np.eye(d, dtype=bool)
    for group in design.groups:
        for view in group.views:
            held[np.ix_(view.attributes, view.attributes)] = True
    return float((held.sum() - d) / max(d * (d - 1), 1)) if d > 1 else 1.0


def _energy(order: int) -> float:
    """Return the prior mean square of one coefficient."""
    prior = PriorScales()
    if order == 2:
        return sum(scale**2 for scale in prior.pairs) / len(prior.pairs)
    return prior.scales[order - 1] ** 2 if order <= len(prior.scales) else 0.0


def _orders(stated: Mapping[int, float], cells: float) -> dict[int, float]:
    """Return the error of each order in a table of that size, from the errors of whole tables.

    The stated sizes are consecutive from 1.
    """
    orders: dict[int, float] = {}
    for size in sorted(stated):
        lower = sum(comb(size, o) * cells ** (o - size) * e for o, e in orders.items())
        orders[size] = max(stated[size] - lower, 0.0)
    return orders
