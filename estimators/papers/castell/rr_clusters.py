"""RR-Clusters: randomised response on clusters of dependent attributes.

A table over several clusters is the product of the clusters' tables (Domingo-Ferrer and
Soria-Comas, TKDE 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.methods.base import Design, Model
from calmstream.estimators.methods.notes import PRODUCT, Note
from calmstream.estimators.methods.shared.options import only_parameters
from calmstream.estimators.numerics.dependence import cluster, cramers_v
from calmstream.estimators.papers.castell.design import (
    attribute_sets,
    expected_errors,
    loss_reason,
    product_group,
)
from calmstream.estimators.papers.castell.family import fit_product
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally

THRESHOLD = 0.3
"""Minimum estimated Cramér's V of two attributes that are put into one cluster."""

MAX_CLUSTER_CELLS = 256
"""Maximum number of cells of a cluster: in larger ones the noise of randomised response is larger
than the dependence that the cluster is to preserve."""


class RRClusters:
    """RR-Clusters (``rr-clusters``); the parameter ``clusters``, lists of attributes, is required.

    Clusters come from a pilot: a plan of ``rr-ind-joint`` over a part of the devices. Its 2-way
    tables give Cramér's V of every pair (`numerics.dependence`). The plan that follows
    states the clusters. It has the lineage of the pilot (plans of one lineage share the devices'
    memory), so that devices of the pilot do not report again.
    """

    name: ClassVar[str] = "rr-clusters"
    note: ClassVar[Note] = Note(
        "every cluster of dependent attributes, each with a part of epsilon",
        "product of clusters",
        "after a pilot has shown which few attributes depend on each other",
        "Domingo-Ferrer, Soria-Comas, TKDE 2022",
        expected=PRODUCT,
        raw=True,
    )
    baseline: ClassVar[bool] = False
    pilot: ClassVar[str] = "rr-ind-joint"
    """Registry name of the pilot's method."""

    def learn(self, domain: Domain, model: Model) -> dict[str, Any]:
        """Return the parameters that a pilot's model suggests.

        Attributes whose estimated Cramér's V is 0.3 or more share a cluster of up to 256 cells,
        strongest first.
        """
        dependence = {}
        for pair in combinations(range(len(domain)), 2):
            marginal = model.marginal(pair)
            shape = domain.shape(pair)
            variance = np.square(marginal.stderr).reshape(shape)
            dependence[pair] = cramers_v(marginal.table.reshape(shape), variance)
        clusters = cluster(dependence, domain.cardinalities, THRESHOLD, MAX_CLUSTER_CELLS)
        return {"clusters": [[domain.names[i] for i in c] for c in clusters if len(c) > 1]}

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, "clusters")
        clusters = _clusters(request)
        group, mechanism = product_group(request, clusters, clusters)
        names = request.domain.names
        text = "; ".join(", ".join(names[i] for i in c) for c in clusters if len(c) > 1)
        reason = (
            loss_reason(mechanism),
            f"clusters: {text or 'none'}; every other attribute is a cluster of its own",
            "tables over several clusters are products of the clusters' tables",
            f"counts one table per cluster, {mechanism.width:,} cells",
        )
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=False))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return fit_product(plan, tallies, "independent")


def _clusters(request: Request) -> tuple[Attributes, ...]:
    """Return the stated clusters, and a cluster of its own for every other attribute."""
    if "clusters" not in request.parameters:
        raise PlanError(
            "method rr-clusters needs the parameter clusters, lists of attributes, as learnt from "
            "a pilot plan of rr-ind-joint with the same lineage"
        )
    stated = attribute_sets("clusters", request.parameters["clusters"], request.domain)
    d = len(request.domain)
    members = [i for cluster in stated for i in cluster]
    if len(set(members)) != len(members) or any(i >= d for i in members) or not all(stated):
        raise PlanError("clusters: an attribute is in two clusters, or does not exist")
    singles = tuple((i,) for i in range(d) if i not in members)
    return tuple(sorted(stated + singles))
