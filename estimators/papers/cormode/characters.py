"""Characters: the Fourier transform of categorical attributes, one linear functional per report.

They extend InpHT to categorical attributes, as Cormode et al. conjectured of the Efron-Stein
decomposition. A device reports ``t = sum_j a_j x_j mod r`` of its values x_j, for one vector of
factors a (a view), by the best oracle on r cells. The distribution of t determines the coefficients
of all multiples of a.
"""

from __future__ import annotations

from itertools import combinations, product
from math import gcd, lcm
from typing import ClassVar

from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import (
    Assigned,
    only_parameters,
    pack,
    require_views,
    statistic,
)
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.papers.cormode.coefficients import CoefficientMethod, harmonics
from calmstream.estimators.papers.cormode.hadamard import design_restricted
from calmstream.estimators.view import View

MAX_MODULUS = 12  # order of the common cyclic group of attributes with unequal numbers of values


def vectors(domain: Domain, k: int) -> list[View]:
    """Return every coefficient that depends on 1 to k attributes, as a view of its own."""
    views = []
    for size in range(1, k + 1):
        for attributes in combinations(range(len(domain)), size):
            shape = domain.shape(attributes)
            factor_rows = product(*(range(1, r) for r in shape))
            views += [View(attributes, "character", f, lcm(*shape)) for f in factor_rows]
    return views


def order(view: View, domain: Domain) -> int:
    """Return the order of the factors in the group: their smallest multiple that is zero."""
    orders = [
        domain.cardinalities[i] // gcd(a, domain.cardinalities[i])
        for i, a in zip(view.attributes, view.factors, strict=True)
    ]
    return lcm(*orders)


def generators(domain: Domain, k: int) -> list[View]:
    """Choose as few views as determine every coefficient: one per maximal cyclic subgroup.

    From the largest order to the smallest, a vector is a multiple of an earlier one, or generates a
    subgroup that no later one's contains.
    """
    reached: set[tuple[Attributes, tuple[int, ...]]] = set()
    chosen = []
    for view in sorted(vectors(domain, k), key=lambda v: -order(v, domain)):
        if (view.attributes, view.factors) not in reached:
            chosen.append(view)
            reached.update(key for _, key in harmonics(view, domain))
    return chosen


class Characters(CoefficientMethod):
    """A sum of multiples of the codes, modulo their number; as inp-ht, for three or more labels.

    The modulus is the least common multiple of the numbers of labels. If they differ and it is
    above 12, the method uses Hadamard coefficients of bits, as ``inp-ht`` does.
    """

    name: ClassVar[str] = "characters"

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        domain, k = request.domain, request.k
        modulus = lcm(*domain.cardinalities)
        if len(set(domain.cardinalities)) > 1 and modulus > MAX_MODULUS:
            reason = (
                f"cardinalities have the least common multiple {modulus:,}, above {MAX_MODULUS}: "
                f"Hadamard coefficients of the binary encoding that touch at most {k} attributes"
            )
            return design_restricted(self.name, request, reason)
        count = sum(elementary([r - 1 for r in domain.cardinalities], k)[1:])
        require_views(self.name, count, f"coefficients that touch at most {k} attributes")
        views = generators(domain, k)
        moduli = {v.modulus for v in views}
        oracles = {m: best_oracle(request.epsilon, m) for m in moduli}
        assigned = [Assigned(v, oracles[v.modulus]) for v in views]
        groups = pack(assigned, request.max_groups, separate=False)
        listed = ", ".join(f"{oracles[m].name.upper()} on Z_{m}" for m in sorted(oracles))
        known = f"{len(views):,} linear functionals determine the {count:,} coefficients that touch"
        reasons = (
            f"{known} at most {k} attributes",
            f"{listed}; {request.users / len(views):,.0f} reports each on average",
            statistic(groups),
        )
        return Design(groups, {}, reasons)
