"""RR-Clusters: randomised response on clusters of dependent attributes.

A table over several clusters is the product of their tables (Domingo-Ferrer and Soria-Comas, TKDE
2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes
from calmstream.estimators.methods.base import Request
from calmstream.estimators.numerics.dependence import cramers_v
from calmstream.estimators.papers.castell.design import BlockMethod, KeptTables, attribute_sets
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.rr_ind_joint import RRIndJoint
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally

THRESHOLD = 0.3  # minimum estimated Cramér's V of two attributes that are put into one cluster
MAX_CLUSTER_CELLS = 256  # with more, noise is larger than the dependence that the cluster preserves


class RRClusters(BlockMethod):
    """Every cluster of dependent attributes with a part of epsilon; products of clusters.

    The parameter ``clusters``, lists of attributes, is required. Clusters come from a pilot, a plan
    of ``rr-ind-joint`` over a part of the devices; the plan that follows has its lineage, so that
    devices of the pilot do not report again.
    """

    name: ClassVar[str] = "rr-clusters"
    parameters: ClassVar[tuple[str, ...]] = ("clusters",)
    scheme: ClassVar[str] = "independent"
    recovery: ClassVar[str] = "tables over several clusters are products of the clusters' tables"
    teachers: ClassVar[tuple[str, ...]] = (RRIndJoint.name,)

    def follow(self, plan: Plan, tallies: Sequence[Tally]) -> dict[str, Any]:
        """Return the clusters that a pilot's estimates of Cramér's V suggest."""
        domain, model, dependence = plan.domain, RRIndJoint().fit(plan, tallies), {}
        for pair in combinations(range(len(domain)), 2):
            marginal = model.marginal(pair)
            shape = domain.shape(pair)
            variance = np.square(marginal.stderr).reshape(shape)
            dependence[pair] = cramers_v(marginal.table.reshape(shape), variance)
        clusters = cluster(dependence, domain.cardinalities, THRESHOLD, MAX_CLUSTER_CELLS)
        return {"clusters": [[domain.names[i] for i in c] for c in clusters if len(c) > 1]}

    def fit_total(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        """Fit as windows: a plan states the clusters of its pilot and none of its counts."""
        return self.fit(plan, tallies)

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        """Return the stated clusters, and a cluster of its own for every other attribute."""
        if "clusters" not in request.parameters:
            raise PlanError(
                "method rr-clusters needs the parameter clusters, lists of attributes, as learnt "
                "from a pilot plan of rr-ind-joint with the same lineage"
            )
        stated = attribute_sets("clusters", request.parameters["clusters"], request.domain)
        d = len(request.domain)
        members = [i for cluster in stated for i in cluster]
        if len(set(members)) != len(members) or any(i >= d for i in members):
            raise PlanError("clusters: an attribute is in two clusters, or does not exist")
        return tuple(sorted((*stated, *((i,) for i in range(d) if i not in members))))

    def tables(self, request: Request) -> KeptTables:
        clusters, domain = self.blocks(request), request.domain
        text = "; ".join(", ".join(domain.names[i] for i in c) for c in clusters if len(c) > 1)
        cells = sum(domain.size(c) for c in clusters)
        return clusters, (
            f"clusters: {text or 'none'}; every other attribute is a cluster of its own; counts "
            f"one table per cluster, {cells:,} cells"
        )


def cluster(
    dependence: Mapping[tuple[int, int], float],
    cardinalities: Sequence[int],
    threshold: float,
    max_cells: int,
) -> tuple[tuple[int, ...], ...]:
    """Merge attributes greedily, the strongest dependence (Cramér's V of ascending pairs) first.

    Pairs below the threshold, or whose cluster would have more than ``max_cells``, stay apart.
    """
    clusters = [{i} for i in range(len(cardinalities))]
    for (i, j), v in sorted(dependence.items(), key=lambda item: (-item[1], item[0])):
        if v < threshold:
            break
        first = next(c for c in clusters if i in c)
        second = next(c for c in clusters if j in c)
        merged = first | second
        if first is second or prod(cardinalities[i] for i in merged) > max_cells:
            continue
        clusters = [c for c in clusters if c is not first and c is not second]
        clusters.append(merged)
    return tuple(sorted(tuple(sorted(c)) for c in clusters))
