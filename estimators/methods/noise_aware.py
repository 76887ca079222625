"""The noise-aware method (METHODS §6): ask where it helps, fit no further than noise allows.

Shares of users by expected posterior error (`estimators.noise_aware.design.allocation`); the
best oracle on every view; recovery by two Bayesian models weighed by an unbiased estimate of their
error (`estimators.noise_aware.model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from estimators.errors import PlanError
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import only_parameters
from estimators.methods.shared.packing import Assigned, pack, require_views
from estimators.noise_aware.design.allocation import allocate, describe, integer_shares, oracle
from estimators.noise_aware.design.prior_scales import learn_sizes, read_sizes
from estimators.noise_aware.input.earlier import after, pool, read_earlier
from estimators.noise_aware.model import NoiseAwareModel
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally


class NoiseAware:
    """Registry name ``noise-aware``.

    Parameters: ``prior_sizes``, the standard deviations of a coefficient of order 1, 2, 3 and 4 (0
    for those left out), which steer who reports on what and nothing else; ``pilots``, what earlier
    plans of the lineage counted (`estimators.noise_aware.input.earlier`), which joins the
    totals. A pilot gives both.
    """

    name: ClassVar[str] = "noise-aware"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "interactions"
    teachers: ClassVar[tuple[str, ...]] = ("noise-aware", "calm", "am", "marg-ps", "marg-rr")
    """Methods whose counts are tables of known noise."""

    def design(self, request: Request) -> Design:
        """Views and shares of least expected posterior error; views packed by mechanism."""
        given = request.parameters
        only_parameters(self.name, given, "prior_sizes", "pilots")
        domain, d = request.domain, len(request.domain)
        require_views(self.name, d * (d + 1) // 2, "views")
        prior = read_sizes(given["prior_sizes"]) if "prior_sizes" in given else None
        earlier = read_earlier(given, domain)
        found = allocate(
            domain.cardinalities,
            request.users,
            request.epsilon,
            request.k,
            prior,
        )
        assigned = [
            Assigned(View(view), oracle(request.epsilon, domain.size(view))[0], share)
            for view, share in zip(found.views, integer_shares(found.shares), strict=True)
        ]
        groups = pack(assigned, request.max_groups, separate=False)
        mechanisms = sorted({str(g.mechanism["name"]) for g in groups})
        reason = [
            f"shares by expected posterior error: {describe(found)}",
            f"{' and '.join(mechanisms)} by table size",
            "interactions are shrunk as far as their known noise demands",
        ]
        if prior:
            pairs = " or ".join(f"{size:.3g}" for size in prior.pairs)
            reason.append(
                f"coefficients of single attributes about {prior.sizes[0]:.3g}, of pairs {pairs}"
            )
        if earlier:
            counted = sum(one.reports for one in earlier)
            reason.append(f"totals join {counted:,} reports of earlier plans; windows do not")
        return Design(groups, dict(given), tuple(reason), found.expected)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """Statistics, two models, weights."""
        return NoiseAwareModel(plan, tallies)

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """The same with what earlier plans counted, pooled by inverse variance."""
        earlier = read_earlier(plan.parameters, plan.domain)
        model = NoiseAwareModel(*pool(plan, tallies, earlier))
        if earlier:
            model.processing = ("joining what earlier plans counted", *model.processing)
        return model

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Sizes of interactions and the counts themselves; cost as `NoiseAwareModel`.

        Raises:
            PlanError: a method whose counts it does not understand, no reports, too many counters.
        """
        if plan.method not in self.teachers:
            known = ", ".join(self.teachers)
            raise PlanError(f"method {self.name} learns from {known}; the pilot is {plan.method}")
        earlier = after(plan, tallies)
        return {
            "prior_sizes": learn_sizes(*pool(plan, tallies, earlier[:-1])),
            "pilots": [one.to_json() for one in earlier],
        }
