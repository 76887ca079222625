"""Marginals of methods that randomise whole records, from the counts of a product mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_QUERY_CELLS, Marginal, flagged, uniform
from calmstream.estimators.numerics.block_inverse import AxisChannel
from calmstream.estimators.numerics.simplex import project
from calmstream.estimators.papers.castell import schemes
from calmstream.estimators.papers.castell.joint_tables import RecordMechanism
from calmstream.estimators.papers.castell.product_grr import ProductGRR, channels
from calmstream.estimators.papers.castell.schemes import SchemeEstimate
from calmstream.estimators.tally import Tally

SCHEMES: Mapping[str, Callable[[Floats, Sequence[AxisChannel], int], SchemeEstimate]] = {
    "joint": schemes.joint,
    "hybrid": schemes.hybrid,
    "hybrid-bounds": schemes.hybrid_by_bounds,
    "truncated": schemes.truncated,
}
"""Schemes that work on the table over all requested attributes; ``independent`` does not."""

PROCESSING: Mapping[str, tuple[str, ...]] = {
    "joint": ("axis-wise inverse",),
    "independent": ("inverse per block", "product across blocks"),
    "hybrid": ("axis-wise inverse or product of 1-way inverses, by predicted error",),
    "hybrid-bounds": ("axis-wise inverse or product of 1-way inverses, by the paper's bounds",),
    "truncated": ("axis-wise inverse", "negatives to 0", "capped by the (w-1)-way estimates"),
}
"""Steps from raw counts to answers of each scheme, as snapshots state them."""

M = TypeVar("M", bound=RecordMechanism)


class RecordTables(Generic[M]):
    """The counters of one window or of the running total, with what may be read from them."""

    def __init__(self, domain: Domain, mechanism: M, tally: Tally) -> None:
        self._domain = domain
        self._mechanism = mechanism
        self._counts, self._n = tally.counts[0], int(tally.n[0])

    def raw_table(self, attributes: Attributes) -> tuple[Floats, Floats] | None:
        mechanism = self._mechanism
        if self._n == 0 or not mechanism.holds(attributes):
            return None
        table = mechanism.table(self._counts, self._n, mechanism.axes, attributes)
        possible = project(table)
        return table, mechanism.table_covariance(self._n, possible, mechanism.axes, attributes)

    def _require(self, attributes: Attributes) -> None:
        if not self._mechanism.holds(attributes):
            names = ", ".join(self._domain.names[i] for i in attributes)
            raise InvalidInput(
                f"the plan counts no table that contains {names}: make a plan that names it in the "
                "parameter `tables`"
            )

    def _observed(self, attributes: Attributes) -> Floats:
        """Return the frequencies of randomised records over the attributes."""
        self._require(attributes)
        return self._mechanism.layout.read(self._counts, attributes) / max(self._n, 1)


class ProductModel(RecordTables[ProductGRR]):
    """A fitted model that answers marginals by one scheme (`base.Model`)."""

    def __init__(self, domain: Domain, mechanism: ProductGRR, tally: Tally, scheme: str) -> None:
        super().__init__(domain, mechanism, tally)
        self._scheme = scheme
        self.processing = PROCESSING[scheme]

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the scheme's estimate: ``covered`` by an inverse, ``maxent`` by a product."""
        cells = self._domain.size(attributes)
        if cells > MAX_QUERY_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; at most {MAX_QUERY_CELLS:,} are made")
        products = self._scheme == "independent"
        parts = self._parts(attributes) if products else [attributes]
        for part in parts:
            self._require(part)
        if self._n == 0:
            return uniform(attributes, cells)
        estimate = self._product(attributes, parts) if products else self._estimate(attributes)
        flags = ["covered" if estimate.joint else "maxent", "raw"]
        stderr = np.sqrt(estimate.variance).reshape(-1)
        table = estimate.table.reshape(-1)
        return flagged(attributes, table, stderr, self._n, flags, clipped=estimate.clipped)

    def _estimate(self, attributes: Attributes) -> SchemeEstimate:
        factors = channels(self._mechanism, attributes)
        return SCHEMES[self._scheme](self._observed(attributes), factors, self._n)

    def _parts(self, attributes: Attributes) -> list[Attributes]:
        """Return the attributes of each block that has any."""
        parts = (tuple(i for i in attributes if i in block) for block in self._mechanism.blocks)
        return [part for part in parts if part]

    def _product(self, attributes: Attributes, parts: Sequence[Attributes]) -> SchemeEstimate:
        """Return the product of the parts' tables, each read from the smallest that is counted."""
        found = []
        for members in parts:
            factors = channels(self._mechanism, members)
            part = schemes.joint(self._observed(members), factors, self._n)
            shape = [self._domain.cardinalities[i] if i in members else 1 for i in attributes]
            table, variance = part.table.reshape(shape), part.variance.reshape(shape)
            found.append(SchemeEstimate(table, variance, joint=True))
        return schemes.multiply(found)
