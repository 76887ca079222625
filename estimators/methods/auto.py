"""Choose the method with the smallest predicted error.

The design of a method states the error that noise and sampling cause, by size of marginal, for
unbiased linear estimates. The rest of the prediction comes from a prior on the strength of
interactions between attributes (`noise_aware.priors`):

- The error is at most that of the uniform table under the prior, because a method that makes its
  tables valid is rarely worse (`Prediction.unbounded` is the error without this bound). The bound
  favours LoPub and methods with raw tables, but never makes a method the best.
- Errors of sizes that a design does not state are extrapolated order by order. The error of a
  t-way table is the sum over orders o of ``C(t, o) r^(o - t) q_o``, where r is the geometric mean
  of the attributes' numbers of values, and q_o is the error of one interaction of o attributes. The
  stated sizes determine q_o for small o. For larger o, q_o is the last known one, scaled by
  ``1 - 1 / r`` per order. But if the largest view of a method has fewer than o attributes, the
  method estimates the interaction as zero, and the error is its prior mean square.
- Methods that read pairs from views (sets of attributes that a device reports on) estimate the
  interaction of a pair as zero if no view contains the pair. Its prior mean square is added.

The noise-aware method states its posterior error under the same prior, which is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb, exp, log
from typing import TYPE_CHECKING

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators import methods
from calmstream.estimators.methods.base import Piloted
from calmstream.estimators.noise_aware.priors import PriorScales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from calmstream.estimators.methods.base import Design
    from calmstream.estimators.plan.request import Request

OWN_PRIOR = ("noise-aware",)
"""Methods whose stated errors include the part that follows from the prior."""

PRODUCTS = ("rr-independent",)
"""Methods that recover single attributes only, and treat attributes as independent."""

TIE = 1.25
"""Ratio of two predictions below which they count as equal, because they are not more accurate. The
noise-aware method wins a tie: its prediction leaves out the gain from its joint fit and from
non-negativity."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted error of one method.

    Attributes:
        method: registry name.
        error: predicted sum of squared errors of one k-way marginal; None if the method cannot
            serve the request.
        reason: why the method cannot serve the request; empty if it can.
        unbounded: the error before it is bounded by that of the uniform table; it shows how far a
            method is from being useful.
        design: the design of the method; None if it cannot serve the request.
    """

    method: str
    error: float | None
    reason: str = ""
    unbounded: float | None = None
    design: Design | None = field(default=None, repr=False, compare=False)


def predictions(request: Request) -> tuple[Prediction, ...]:
    """Return a prediction for every method that a plan can use without a pilot.

    They are in order of predicted error, the smallest first; methods that cannot serve the request
    come last. Cost: a design of every method.
    """
    unordered = [
        _predict(name, request)
        for name in methods.names()
        if not methods.get(name).baseline and not isinstance(methods.get(name), Piloted)
    ]
    return tuple(sorted(unordered, key=lambda p: (p.error is None, p.error or 0.0, p.method)))


def choose(request: Request) -> Prediction:
    """Return the method with the smallest predicted error; the noise-aware method wins a tie.

    Raises:
        PlanError: no method can serve the request.
    """
    return pick(predictions(request))


def pick(ordered: Sequence[Prediction]) -> Prediction:
    """Return the choice among predictions that are in order of their error.

    Raises:
        PlanError: no method can serve the request.
    """
    best = ordered[0]
    if best.error is None:
        raise PlanError(f"no method can serve this request; {best.method}: {best.reason}")
    for prediction in ordered:
        is_tie = prediction.error is not None and prediction.error <= TIE * best.error
        if is_tie and prediction.method in OWN_PRIOR:
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
        stated = design.expected_sse[request.k]
        return Prediction(name, stated, unbounded=stated, design=design)
    widest = max(len(view.attributes) for group in design.groups for view in group.views)
    total, uniform = _with_prior(design, request, 1 if name in PRODUCTS else widest)
    return Prediction(name, min(total, uniform), unbounded=total, design=design)


def _with_prior(design: Design, request: Request, largest: int) -> tuple[float, float]:
    """Return the predicted error of a k-way table, and that of the uniform table.

    Args:
        design: the design of the method, with its stated errors.
        request: the domain and k.
        largest: order of the largest interactions that the method recovers.
    """
    cards, k = request.domain.cardinalities, request.k
    cells = exp(sum(map(log, cards)) / len(cards))
    noise = _orders(design.expected_sse, cells)
    uncovered = 1.0 - _pair_coverage(design, len(cards))
    total = uniform = 0.0
    for order in range(1, k + 1):
        weight = comb(k, order) * cells ** (order - k)
        energy = _energy(order) * (1.0 - 1.0 / cells) ** order
        uniform += weight * energy
        last = max(noise)
        if order > largest:
            total += weight * energy
        elif order in noise:
            total += weight * (noise[order] + (uncovered * energy if order == 2 else 0.0))
        else:
            total += weight * noise[last] * (1.0 - 1.0 / cells) ** (order - last)
    return total, uniform


def _pair_coverage(design: Design, d: int) -> float:
    """Return the share of the pairs of attributes that some view contains."""
    covered = np.eye(d, dtype=bool)
    for group in design.groups:
        for view in group.views:
            covered[np.ix_(view.attributes, view.attributes)] = True
    return float((covered.sum() - d) / max(d * (d - 1), 1)) if d > 1 else 1.0


def _energy(order: int) -> float:
    """Return the prior mean square of one interaction coefficient of that order."""
    prior = PriorScales()
    if order == 2:
        return sum(scale**2 for scale in prior.pairs) / len(prior.pairs)
    return prior.scales[order - 1] ** 2 if order <= len(prior.scales) else 0.0


def _orders(stated: Mapping[int, float], cells: float) -> dict[int, float]:
    """Return the error of one interaction, by its order, from the errors of whole tables.

    Args:
        stated: error of a table by its number of attributes, for 1, 2, ... without a gap.
        cells: mean number of values of an attribute.
    """
    orders: dict[int, float] = {}
    for size in sorted(stated):
        lower = sum(comb(size, o) * cells ** (o - size) * e for o, e in orders.items())
        orders[size] = max(stated[size] - lower, 0.0)
    return orders
