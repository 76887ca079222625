"""Hadamard methods FT, InpHT and MargHT: every device reports the sign of one coefficient.

A coefficient (view) is the parity of some bits of the codes. The methods differ in the coefficients
that devices choose from, and in the tables that a report can serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import ClassVar

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import (
    Assigned,
    only_parameters,
    pack,
    require_views,
    statistic,
)
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.papers.cormode.coefficients import CoefficientMethod, CoefficientModel
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import counted_views
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


def bits(domain: Domain) -> tuple[int, ...]:
    return tuple((r - 1).bit_length() for r in domain.cardinalities)


def parities(domain: Domain, attributes: Sequence[int], k: int) -> list[View]:
    """Return every coefficient that depends on 1 to k of these attributes and no other one."""
    masks = [range(1, 1 << width) for width in bits(domain)]
    return [
        View(chosen, "parity", factors)
        for size in range(1, k + 1)
        for chosen in combinations(attributes, size)
        for factors in product(*(masks[i] for i in chosen))
    ]


def design_restricted(method: str, request: Request, reason: str) -> Design:
    """Return the design of InpHT, which ``characters`` uses for some domains too."""
    domain, k = request.domain, request.k
    count = sum(elementary([(1 << b) - 1 for b in bits(domain)], k)[1:])
    require_views(method, count, f"coefficients that touch at most {k} attributes")
    views = parities(domain, range(len(domain)), k)
    return _design(request, views, [1] * count, reason.format(count=f"{count:,}"))


def _design(request: Request, views: Sequence[View], shares: Sequence[int], reason: str) -> Design:
    mechanism = standard("hadamard-coefficient", request.epsilon, 2)
    assigned = [Assigned(v, mechanism, s) for v, s in zip(views, shares, strict=True)]
    groups = pack(assigned, request.max_groups, separate=False)
    each = request.users / len(views)
    lines = (
        f"{reason}; one sign by randomised response; {each:,.0f} reports each on average",
        statistic(groups),
    )
    return Design(groups, {}, lines)


class InpHT(CoefficientMethod):
    """A Hadamard coefficient of at most k attributes; unbiased, for binary attributes and tests."""

    name: ClassVar[str] = "inp-ht"

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        reason = f"the {{count}} Hadamard coefficients that touch at most {request.k} attributes"
        return design_restricted(self.name, request, reason)


class FT(CoefficientMethod):
    """A Hadamard coefficient of the record's bits: the Fourier method of CALM's comparison.

    It has all parities of up to m bits, the number of bits of the k widest attributes. With binary
    attributes this is InpHT; otherwise most reports depend on more than k attributes and serve no
    k-way table.
    """

    name: ClassVar[str] = "ft"

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        widths = bits(request.domain)
        string = [(i, 1 << b) for i, width in enumerate(widths) for b in range(width)]
        order = sum(sorted(widths)[-request.k :])
        count = sum(comb(len(string), size) for size in range(1, order + 1))
        what = f"coefficients of order up to {order} on {len(string)} bits"
        require_views(self.name, count, what)
        views = []
        for size in range(1, order + 1):
            for parity in combinations(string, size):
                masks: dict[int, int] = {}
                for i, mask in parity:
                    masks[i] = masks.get(i, 0) | mask
                views.append(View(tuple(masks), "parity", tuple(masks.values())))
        useful = sum(len(v.attributes) <= request.k for v in views)
        reason = f"all {count:,} Hadamard {what}"
        if useful < count:
            reason += f" ({useful:,} of them touch at most {request.k} attributes)"
        return _design(request, views, [1] * count, reason)


class MargHT(CoefficientMethod):
    """A Hadamard coefficient of one table of k attributes, which serves only that table."""

    name: ClassVar[str] = "marg-ht"

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        domain, d, k = request.domain, len(request.domain), request.k
        widths = bits(domain)
        if sum(sorted(widths)[-k:]) > 16:
            raise PlanError(
                f"method marg-ht: a table of {k} attributes has up to {sum(sorted(widths)[-k:])} "
                "bits; at most 16 are planned: lower k or drop attributes"
            )
        count = elementary([1 << b for b in widths], k)[k] - comb(d, k)
        require_views(self.name, count, f"pairs of a {k}-way table and a coefficient of it")
        parts = [parities(domain, m, k) for m in combinations(range(d), k)]
        views = [view for part in parts for view in part]
        # All marginals have the same total share, whatever the number of their coefficients.
        # Shares are whole numbers; 2^16 keeps their relative rounding error below 2^-17.
        longest = max(map(len, parts))
        shares = [round((1 << 16) * longest / len(part)) for part in parts for _ in part]
        if len(set(shares)) == 1:
            shares = [1] * count
        tables = f"one of {len(parts):,} tables of {k} attributes"
        reason = f"{tables} and one of its coefficients: {count:,} pairs"
        return _design(request, views, shares, reason)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> CoefficientModel:
        """Fit with the marginal of each view as its owner; the order of the views states it."""
        counted, domain = counted_views(plan, tallies), plan.domain
        marginals = combinations(range(len(domain)), plan.k)
        pairs = [(m, view) for m in marginals for view in parities(domain, m, plan.k)]
        if [view for _, view in pairs] != [one.view for one in counted]:
            raise PlanError("method marg-ht: the plan's views are not those of its marginals")
        return CoefficientModel(plan, counted, [marginal for marginal, _ in pairs])
