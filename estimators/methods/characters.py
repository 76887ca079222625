"""Characters: the orthogonal decomposition for categorical attributes.

Cormode et al. conjectured that InpHT extends to categorical attributes by the Efron-Stein
decomposition. It does, by the characters of a product of cyclic groups: a device reports one linear
functional ``t = sum_j a_j x_j mod r`` by the best oracle on r cells, and the distribution of t
determines all coefficients that are multiples of a, r - 1 of them for a prime r, at once.
"""

from __future__ import annotations

from itertools import combinations, product
from math import gcd, lcm
from typing import TYPE_CHECKING, ClassVar, cast

from estimators.mechanisms import best_oracle
from estimators.methods.base import Answers, Design
from estimators.methods.hadamard import design_restricted
from estimators.methods.shared.coefficient_model import (
    CoefficientModel,
    Family,
    expected_errors,
    weights,
)
from estimators.methods.shared.coefficients import harmonics
from estimators.methods.shared.options import only_parameters
from estimators.methods.shared.packing import Assigned, pack, require_views, statistic
from estimators.numerics.subsets import elementary
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.mechanisms.base import Mechanism
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

MAX_MODULUS = 12
"""Largest cyclic group in which attributes of unequal cardinalities are put together."""


def vectors(domain: Domain, k: int) -> list[View]:
    """Return every coefficient that touches 1 to k attributes, as a view of its own."""
    found = []
    for size in range(1, k + 1):
        for attributes in combinations(range(len(domain)), size):
            shape = domain.shape(attributes)
            every = product(*(range(1, r) for r in shape))
            found += [View(attributes, "character", f, lcm(*shape)) for f in every]
    return found


def order(view: View, domain: Domain) -> int:
    """Return the least multiple of the factors that vanishes."""
    orders = [
        domain.cardinalities[i] // gcd(a, domain.cardinalities[i])
        for i, a in zip(view.attributes, view.factors, strict=True)
    ]
    return lcm(*orders)


def generators(domain: Domain, k: int) -> list[View]:
    """Choose as few views as determine every coefficient: one per maximal cyclic subgroup.

    Taken in the order of falling group order, a vector is a multiple of an earlier one or starts a
    group that no later one contains. For a prime r these are the lines through the origin.
    """
    reached: set[tuple[Attributes, tuple[int, ...]]] = set()
    chosen = []
    for view in sorted(vectors(domain, k), key=lambda v: -order(v, domain)):
        if (view.attributes, view.factors) not in reached:
            chosen.append(view)
            reached.update(key for _, key in harmonics(view, domain))
    return chosen


class Characters:
    """Registry name ``characters``; parameter ``weighting`` as for ``inp-ht``.

    Equal cardinalities: the group Z_r. Unequal ones: Z_m, m their least common multiple, while
    that is at most 12; otherwise the coefficients of the binary encoding, as ``inp-ht``.
    """

    name: ClassVar[str] = "characters"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "coefficients"

    def design(self, request: Request) -> Design:
        """One view per cyclic group of coefficients that touch at most k attributes.

        Raises:
            PlanError: too many coefficients, with their number.
        """
        only_parameters(self.name, request.parameters, "weighting")
        domain, k = request.domain, request.k
        modulus = lcm(*domain.cardinalities)
        if len(set(domain.cardinalities)) > 1 and modulus > MAX_MODULUS:
            reason = (
                f"cardinalities have the least common multiple {modulus:,}, above {MAX_MODULUS}: "
                f"Hadamard coefficients of the binary encoding that touch at most {k} attributes"
            )
            return expected_errors(self, request, design_restricted(self.name, request, reason))
        count = sum(elementary([r - 1 for r in domain.cardinalities], k)[1:])
        require_views(self.name, count, f"coefficients that touch at most {k} attributes")
        views = generators(domain, k)
        shares = weights(request, [len(v.attributes) for v in views])
        moduli = {v.modulus for v in views}
        # Every concrete support oracle is a mechanism; their common base alone is not.
        oracles = {m: cast("Mechanism", best_oracle(request.epsilon, m)) for m in moduli}
        assigned = [Assigned(v, oracles[v.modulus], s) for v, s in zip(views, shares, strict=True)]
        groups = pack(assigned, request.max_groups, separate=False)
        used = ", ".join(f"{oracles[m].name.upper()} on Z_{m}" for m in sorted(oracles))
        reasons = (
            (
                f"{len(views):,} linear functionals determine the {count:,} coefficients that "
                f"touch at most {k} attributes"
            ),
            f"{used}; {request.users / len(views):,.0f} reports each on average",
            statistic(groups, request.epsilon),
        )
        return expected_errors(self, request, Design(groups, {}, reasons, {}))

    def family(self, domain: Domain, k: int, views: Sequence[View]) -> Family:
        """Let any report serve any table that contains one of its coefficients."""
        del domain
        return Family(self.name, k, tuple(views))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> CoefficientModel:
        """Fit by the inverse transform."""
        return CoefficientModel.of(plan, tallies, self.family)
