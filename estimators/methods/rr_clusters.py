"""RR-Clusters: randomised response on clusters of dependent attributes, product across them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.castell.design import (
    attribute_sets,
    expected_errors,
    loss_reason,
    product_group,
)
from estimators.castell.family import fit_product
from estimators.errors import PlanError
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import only_parameters
from estimators.numerics.dependence import cluster, cramers_v

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.castell.model import ProductModel
    from estimators.domain import Attributes, Domain
    from estimators.methods.base import Model
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

THRESHOLD = 0.3
"""Least estimated Cramér's V that puts two attributes into one cluster."""

MAX_CLUSTER_CELLS = 256
"""Most cells of a cluster: beyond, randomised response drowns what dependence it keeps."""


class RRClusters:
    """Registry name ``rr-clusters``; parameter ``clusters``, lists of attributes, is required.

    Clusters come from a pilot: a plan of ``rr-ind-joint`` over a share of the devices, whose 2-way
    tables give Cramér's V (`estimators.numerics.dependence`). The plan that follows has the pilot's
    lineage, so that devices of the pilot do not report again, and states the clusters.
    """

    name: ClassVar[str] = "rr-clusters"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "blocks"
    pilot: ClassVar[str] = "rr-ind-joint"
    """Method of the plan that comes first."""

    def learn(self, domain: Domain, model: Model) -> dict[str, Any]:
        """Return the parameters that a pilot's model suggests.

        Attributes whose estimated Cramér's V is 0.3 or more share a cluster of up to 256 cells,
        strongest first.
        """
        dependence = {}
        for pair in combinations(range(len(domain)), 2):
            found = model.marginal(pair)
            shape = domain.shape(pair)
            variance = np.square(found.stderr).reshape(shape)
            dependence[pair] = cramers_v(found.table.reshape(shape), variance)
        clusters = cluster(dependence, domain.cardinalities, THRESHOLD, MAX_CLUSTER_CELLS)
        return {"clusters": [[domain.names[i] for i in c] for c in clusters if len(c) > 1]}

    def design(self, request: Request) -> Design:
        """Choose one block and one table per cluster; other attributes are blocks of their own."""
        only_parameters(self.name, request.parameters, "clusters")
        clusters = _clusters(request)
        group, mechanism = product_group(request, clusters, clusters)
        names = request.domain.names
        shown = "; ".join(", ".join(names[i] for i in c) for c in clusters if len(c) > 1)
        reason = (
            loss_reason(mechanism),
            f"clusters: {shown or 'none'}; the others stand alone; product across clusters",
            f"counts one table per cluster, {mechanism.width:,} cells",
        )
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=False))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        """Multiply the clusters' estimates."""
        return fit_product(plan, tallies, "independent")


def _clusters(request: Request) -> tuple[Attributes, ...]:
    if "clusters" not in request.parameters:
        raise PlanError(
            "method rr-clusters needs the parameter clusters, lists of attributes, as learnt from "
            "a pilot plan of rr-ind-joint with the same lineage"
        )
    given = attribute_sets("clusters", request.parameters["clusters"], request.domain)
    d = len(request.domain)
    inside = [i for cluster in given for i in cluster]
    if len(set(inside)) != len(inside) or any(i >= d for i in inside) or not all(given):
        raise PlanError("clusters: an attribute stands in two clusters, or is not there")
    alone = tuple((i,) for i in range(d) if i not in inside)
    return tuple(sorted(given + alone))
