"""The noise-aware method (METHODS §6): ask where it helps, fit no further than noise allows.

Shares of users by expected posterior error (`estimators.noise_aware.allocation`); the best oracle
on every view; recovery by two Bayesian models weighed by an unbiased estimate of their error
(`estimators.noise_aware.model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from estimators.methods.base import Design
from estimators.methods.options import only_parameters
from estimators.methods.packing import Assigned, pack, require_views
from estimators.noise_aware.allocation import allocate, describe, integer_shares, oracle
from estimators.noise_aware.model import NoiseAwareModel
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.methods.base import Request
    from estimators.plan import Plan
    from estimators.tally import Tally


class NoiseAware:
    """Registry name ``noise-aware``; no parameters."""

    name: ClassVar[str] = "noise-aware"
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        """Views and shares of least expected posterior error; views packed by mechanism."""
        only_parameters(self.name, request.parameters)
        domain, d = request.domain, len(request.domain)
        require_views(self.name, d * (d + 1) // 2, "views")
        found = allocate(domain.cardinalities, request.users, request.epsilon, request.k)
        assigned = [
            Assigned(View(view), oracle(request.epsilon, domain.size(view))[0], share)
            for view, share in zip(found.views, integer_shares(found.shares), strict=True)
        ]
        groups = pack(assigned, request.max_groups, separate=False)
        mechanisms = sorted({str(g.mechanism["name"]) for g in groups})
        reason = (
            f"shares by expected posterior error: {describe(found)}",
            f"{' and '.join(mechanisms)} by table size",
            "interactions are shrunk as far as their known noise demands",
        )
        return Design(groups, {}, reason, found.expected)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """Statistics, two models, weights."""
        return NoiseAwareModel(plan, tallies)
