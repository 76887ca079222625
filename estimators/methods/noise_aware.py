"""The noise-aware method: shares of users by expected error, shrinkage by known noise.

docs/methods/noise-aware.md derives all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import (
    Assigned,
    integer_shares,
    only_parameters,
    pack,
    require_views,
)
from calmstream.estimators.noise_aware import signs as sign_views
from calmstream.estimators.noise_aware.design import (
    ViewShares,
    allocate,
    describe,
    learn_scales,
    oracle,
    read_scales,
)
from calmstream.estimators.noise_aware.model import NoiseAwareModel
from calmstream.estimators.noise_aware.ordered import levels_of
from calmstream.estimators.noise_aware.sampler import QUICK
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.pilots import after, pool, read_earlier
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


class NoiseAware:
    """One table of 1 to 4 attributes; a model of hidden causes: the default for nearly everything.

    Parameters: ``prior_sizes``, the standard deviations of a coefficient of order 1, 2, 3 and 4 (0
    for omitted ones), which decide the shares of users and nothing else; ``pilots``, the counts of
    earlier plans of the lineage (`plan.pilots`), which join the totals. A
    pilot gives both.
    """

    name: ClassVar[str] = "noise-aware"
    baseline: ClassVar[bool] = False
    teachers: ClassVar[tuple[str, ...]] = ("noise-aware", "calm", "am", "marg-ps", "marg-rr")
    """Methods whose counts are tables of known noise."""

    def design(self, request: Request) -> Design:
        """Return views and shares of least expected posterior error, packed by mechanism."""
        given = request.parameters
        only_parameters(self.name, given, "prior_sizes", "pilots")
        domain, d = request.domain, len(request.domain)
        require_views(self.name, d * (d + 1) // 2, "views")
        prior = read_scales(given["prior_sizes"]) if "prior_sizes" in given else None
        earlier = read_earlier(given, domain)
        found = allocate(domain.cardinalities, request.users, request.epsilon, request.k, prior)
        views, shares = _with_signs(found, request)
        assigned = [
            Assigned(view, oracle(request.epsilon, view.cells(domain))[0], share)
            for view, share in zip(views, integer_shares(np.array(shares)), strict=True)
        ]
        groups = pack(assigned, request.max_groups, separate=False)
        mechanisms = sorted({g.mechanism.name for g in groups})
        reason = [
            f"shares by expected posterior error: {describe(found)}",
            f"{' and '.join(mechanisms)} by table size",
            "interactions are shrunk as far as their known noise demands",
        ]
        if prior:
            pairs = " or ".join(f"{scale:.3g}" for scale in prior.pairs)
            reason.append(
                f"coefficients of single attributes about {prior.scales[0]:.3g}, of pairs {pairs}"
            )
        if len(views) > len(found.views):
            signs = sum(shares[len(found.views) :])
            reason.append(f"{signs:.0%} on signs of the highest bits of numbers' levels")
        if earlier:
            counted = sum(one.reports for one in earlier)
            reason.append(f"totals join {counted:,} reports of earlier plans; windows do not")
        return Design(groups, dict(given), tuple(reason))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """Fit the tallies of one plan."""
        return NoiseAwareModel(plan, tallies)

    def fit_quickly(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """Fit with a fifth of the sweeps: the error is about 2 % larger."""
        return NoiseAwareModel(plan, tallies, QUICK)

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> NoiseAwareModel:
        """Fit them together with the counts of earlier plans, pooled by inverse variance."""
        earlier = read_earlier(plan.parameters, plan.domain)
        pooled, counted = pool(plan, tallies, earlier)
        model = NoiseAwareModel(pooled, counted)
        if earlier:
            model.processing = ("joining what earlier plans counted", *model.processing)
        return model

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Return prior scales and the counts themselves, as parameters of the next plan."""
        if plan.method not in self.teachers:
            known = ", ".join(self.teachers)
            raise PlanError(f"method {self.name} learns from {known}; the pilot is {plan.method}")
        carried = read_earlier(plan.parameters, plan.domain) if plan.method == self.name else ()
        earlier = after(plan, tallies, carried)
        return {
            "prior_sizes": learn_scales(*pool(plan, tallies, earlier[:-1])),
            "pilots": [one.to_json() for one in earlier],
        }


def _with_signs(found: ViewShares, request: Request) -> tuple[list[View], list[float]]:
    """Return the views with those on signs of numbers' levels, and their shares.

    There are no signs where topics do not suffice for another mechanism.
    """
    epsilon, domain = request.epsilon, request.domain
    views, shares = [View(view) for view in found.views], found.shares.tolist()
    kinds = {oracle(epsilon, domain.size(view))[0] for view in found.views}
    if len(kinds | {oracle(epsilon, 2)[0]}) > request.max_groups:
        return views, shares
    reports, signs = request.users / len(domain), 0.0
    precisions = [request.users * oracle(epsilon, domain.size(v))[1] for v in found.views]
    for i, attribute in enumerate(domain.attributes):
        levels = levels_of(attribute)
        if levels is None or attribute.kind is None:  # an order that only labels' texts suggest
            continue
        tables = zip(found.views, found.shares.tolist(), precisions, strict=True)
        precision = sum(share * one for view, share, one in tables if i in view)
        chosen = sign_views.choose(levels.count, precision, reports, epsilon)
        part = chosen.share / len(domain)
        views += [View((i,), "parity", (mask,)) for mask in chosen.masks]
        shares += [part / len(chosen.masks) for _ in chosen.masks]
        signs += part
    count = len(found.views)
    return views, [*(share * (1.0 - signs) for share in shares[:count]), *shares[count:]]
