"""Makes a plan from a request: asks a method for a design, checks both, and adds defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from calmstream.common.errors import InvalidInput, PlanError
from calmstream.estimators import methods
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.methods import hashed_views
from calmstream.estimators.methods.base import Design, Method, Model, Request
from calmstream.estimators.plan import MAX_GROUPS, Plan
from calmstream.estimators.randomness import parse_epsilon
from calmstream.estimators.tally import Tally

MAX_USERS = 10**12
"""Maximum number of expected reports per window; a larger number is certainly a mistake."""

MAX_PUBLISHED_CELLS = 1 << 17
"""Maximum number of cells of a published table: with 50 bytes per cell it fits in one record."""


def draft(
    method: str,
    request: Request,
    *,
    start: int,
    window: int,
    windows: int,
    marginals: Sequence[Attributes] | None = None,
    **terms: Any,
) -> tuple[Plan, Design]:
    """Design what a method collects, and return the plan; ``terms`` are its other fields.

    ``marginals``: tables that are published at every window; by default all of one and of two
    attributes that the method can answer.
    """
    check(request)
    chosen = _collecting(method)
    if windows < 1:
        raise PlanError(f"windows: expected at least 1, got {windows}")
    design = hashed_views.design(chosen, request)
    published = default_marginals(request.domain) if marginals is None else tuple(marginals)
    plan = Plan(
        domain=request.domain,
        epsilon=request.epsilon,
        k=request.k,
        method=method,
        parameters=design.parameters,
        groups=design.groups,
        start=start,
        window=window,
        expires=start + windows * window,
        users=request.users,
        marginals=published,
        **terms,
    )
    _check_sizes(request.domain, published)
    answers = methods.fit(plan, empty_tallies(plan))
    kept = [a for a in published if _answers(answers, a, explain=marginals is not None)]
    return (plan if len(kept) == len(published) else replace(plan, marginals=tuple(kept))), design


def _collecting(name: str) -> Method:
    method = methods.get(name)
    if method.baseline:
        raise PlanError(
            f"method {name} is for evaluation only: no plan collects for a baseline, or for a "
            "method that needs every report again"
        )
    return method


def _check_sizes(domain: Domain, published: Sequence[Attributes]) -> None:
    for attributes in published:
        if (cells := domain.size(attributes)) > MAX_PUBLISHED_CELLS:
            named = ", ".join(domain.names[i] for i in attributes)
            raise PlanError(
                f"marginals: the table over {named} has {cells:,} cells; at most "
                f"{MAX_PUBLISHED_CELLS:,} are published"
            )


def require_answers(plan: Plan) -> None:
    """Check the marginals of a plan that another program made; `draft` checks its own."""
    # For its errors: the counts of earlier plans that the plan holds must be of its domain.
    methods.fit(plan, empty_tallies(plan), total=True)
    model = methods.fit(plan, empty_tallies(plan))
    for attributes in plan.marginals:
        _answers(model, attributes, explain=True)


def empty_tallies(plan: Plan) -> list[Tally]:
    return [Tally.zero(len(group.views), group.mechanism.width) for group in plan.groups]


def _answers(model: Model, attributes: Attributes, *, explain: bool) -> bool:
    try:
        model.marginal(attributes)
    except InvalidInput as error:
        if explain:
            raise PlanError(f"marginals: {error}") from None
        return False
    return True


def check(request: Request) -> None:
    parse_epsilon(request.epsilon)
    d = request.domain.ordinary + len(request.domain.hashed)
    if not 1 <= request.k <= d:
        raise PlanError(f"k: expected 1 to {d}, the number of attributes, got {request.k}")
    if not 1 <= request.users <= MAX_USERS:
        raise PlanError(f"users: expected 1 to {MAX_USERS:,} reports a window, got {request.users}")
    if not 1 <= request.max_groups <= MAX_GROUPS:
        raise PlanError(f"max_groups: expected 1 to {MAX_GROUPS}, got {request.max_groups}")


def default_marginals(domain: Domain) -> tuple[Attributes, ...]:
    """Return all 1-way and all 2-way marginals of ordinary attributes, in that order."""
    attributes = range(domain.ordinary)
    return tuple((i,) for i in attributes) + tuple(combinations(attributes, 2))
